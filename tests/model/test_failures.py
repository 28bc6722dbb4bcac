"""What a failed step leads to."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model import errors
from model.failures import entry_hash_of, failed_cause, failure_of, wait_after
from model.reasons import Provisioned


@pytest.mark.parametrize(
    ("error", "reason", "first_waits"),
    [
        ("TransientError", "TransientError", [10.0, 20.0, 40.0, 80.0, 160.0, 300.0, 300.0]),
        ("NotFoundError", "TransientError", [10.0, 20.0]),
        ("QuotaExceededError", "QuotaExceeded", [300.0, 300.0]),
        ("AccessDeniedError", "AccessDenied", [300.0, 300.0]),
        ("PermanentError", "PermanentError", [None, None]),
        ("NameTakenError", "NameTaken", [None, None]),
        ("ProviderNotConfiguredError", "ProviderNotConfigured", [10.0, 20.0]),
        ("CloudInitError", "CloudInitError", [10.0, 20.0]),
        ("ClusterUnavailableError", "TransientError", [10.0, 20.0]),
        ("ValueError", "TransientError", [10.0, 20.0]),
        ("", "TransientError", [10.0, 20.0]),
    ],
)
def test_the_class_of_an_error_decides_the_pace(error: str, reason: str, first_waits: list[float | None]) -> None:
    failure = failure_of(error, "text")
    assert failure.reason == reason
    assert failure.message == "text"
    assert [wait_after(failure, count) for count, _ in enumerate(first_waits, 1)] == first_waits


def test_only_what_cannot_succeed_as_it_stands_latches() -> None:
    latching = {name for name in errors.PROVIDER_ERRORS if failure_of(name, "").latched}
    assert latching == {"PermanentError", "NameTakenError"}


def test_every_provider_error_tells_its_own_reason() -> None:
    told = {name: str(failure_of(name, "").reason) for name in errors.PROVIDER_ERRORS if name != "NotFoundError"}
    assert told == {name: error.reason for name, error in errors.PROVIDER_ERRORS.items() if name != "NotFoundError"}
    assert {error.reason for error in errors.PROVIDER_ERRORS.values()} <= set(Provisioned)


@pytest.mark.parametrize("failures", [1, 17, 1000, 10**9])
def test_no_number_of_failures_leads_beyond_the_longest_wait(failures: int) -> None:
    wait = wait_after(failure_of("TransientError", ""), failures)
    assert wait is not None
    assert 10.0 <= wait <= 300.0


def test_a_change_of_any_part_of_the_cause_is_seen() -> None:
    causes = [
        failed_cause(*parts) for parts in itertools.product((1, 2), ("", "v1-a"), ("", "e1", "e2"), ("", "x", "y"))
    ]
    assert len(set(causes)) == len(causes)


@given(st.integers(0), st.text("0123456789abcdef-v", max_size=40), st.text("0123456789abcdef"), st.text())
def test_the_entry_hash_reads_back_whatever_the_annotation_says(
    generation: int, spec_hash: str, entry: str, retry: str
) -> None:
    assert entry_hash_of(failed_cause(generation, spec_hash, entry, retry)) == entry


@pytest.mark.parametrize("cause", ["", "nonsense", "entry", "generation=1,spec=x"])
def test_an_unknown_cause_has_no_entry_hash(cause: str) -> None:
    assert entry_hash_of(cause) == ""
