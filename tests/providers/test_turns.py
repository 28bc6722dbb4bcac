"""Turns: so many at a time, first come first served, nobody waits inside."""

import contextlib

import pytest

from model.errors import NoTurnError
from providers.turns import FORGOTTEN_AFTER_SECONDS, LONGEST_WAIT_SECONDS, SHORTEST_WAIT_SECONDS, Turns


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def refused(turns: Turns, name: str) -> float:
    """Return after which time to ask again."""
    with pytest.raises(NoTurnError) as caught, turns.turn(name):
        pass
    return caught.value.wait_seconds


def test_whoever_came_first_is_served_first(clock: Clock) -> None:
    turns = Turns(1, clock)
    with turns.turn("a"):
        refused(turns, "b")
        refused(turns, "c")
    refused(turns, "c")
    with turns.turn("b"):
        refused(turns, "c")
        refused(turns, "d")
    refused(turns, "d")
    with turns.turn("c"):
        pass
    with turns.turn("d"):
        pass


def test_several_free_turns_go_to_as_many_of_the_first(clock: Clock) -> None:
    turns = Turns(2, clock)
    with turns.turn("a"), turns.turn("b"):
        for name in "cde":
            refused(turns, name)
    refused(turns, "e")
    with contextlib.ExitStack() as taken:
        taken.enter_context(turns.turn("d"))
        taken.enter_context(turns.turn("c"))


def test_one_that_does_not_come_back_holds_nobody_up(clock: Clock) -> None:
    turns = Turns(1, clock)
    with turns.turn("a"):
        refused(turns, "gone")
    clock.now += FORGOTTEN_AFTER_SECONDS / 2
    refused(turns, "b")
    clock.now += FORGOTTEN_AFTER_SECONDS / 2 + 1
    with turns.turn("b"):
        pass


def test_who_is_further_back_asks_less_often(clock: Clock) -> None:
    turns = Turns(2, clock)
    with turns.turn("a"), turns.turn("b"):
        waits = [refused(turns, f"waiting-{number}") for number in range(30)]
    assert waits == sorted(waits)
    assert (waits[0], waits[-1]) == (SHORTEST_WAIT_SECONDS, LONGEST_WAIT_SECONDS)
