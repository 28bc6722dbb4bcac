"""What an activity learns of its own earlier attempts."""

import dataclasses
from typing import Any

import pytest
from temporalio.testing import ActivityEnvironment

from activities.tries import Tries


@pytest.mark.parametrize(
    ("attempt", "details", "number"),
    [
        (1, [], 1),
        (2, [], 2),
        (2, [1, 1], 2),
        (2, [0, 1], 1),
        (7, [0, 6], 1),
        (3, [0, 1], 2),
        (9, [2, 6], 5),
    ],
    ids=[
        "the first",
        "the first left no word",
        "the first was a try",
        "the first was none",
        "six were none",
        "the second left no word",
        "two of eight left no word",
    ],
)
def test_an_attempt_without_a_word_counts_as_a_try(attempt: int, details: list[Any], number: int) -> None:
    environment = ActivityEnvironment()
    environment.info = dataclasses.replace(environment.info, attempt=attempt, heartbeat_details=details)
    tries = environment.run(Tries)
    assert tries.number == number
    assert tries.details == (number, attempt)
    assert tries.exhausted is (number >= 3)
    assert tries.too_many is (number > 3)


def test_an_attempt_that_asked_nobody_is_taken_back_and_says_so() -> None:
    environment = ActivityEnvironment()
    beats: list[Any] = []
    environment.on_heartbeat = lambda *details: beats.append(details)
    environment.run(lambda: Tries().take_back())
    assert beats == [(0, 1)]
