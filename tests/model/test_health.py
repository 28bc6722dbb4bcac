"""Thresholds and what is worth telling."""

import dataclasses
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.health import HEALTHY, UNHEALTHY, UNKNOWN, HealthChange, HealthState, observe
from model.probe import ProbeOutcome, ProbeResult
from model.proxy import HealthCheck

WORKS = ProbeResult(outcome=ProbeOutcome.WORKS, reason="ProbeSucceeded", latency_millis=100)
BROKEN = ProbeResult(outcome=ProbeOutcome.BROKEN, reason="ConnectTimeout", message="proxy 10.0.0.1:3128: no answer")
NO_VERDICT = ProbeResult(outcome=ProbeOutcome.NO_VERDICT, reason="TargetUnavailable")
LETTERS = {"S": WORKS, "F": BROKEN, "N": NO_VERDICT}
NOW = 1_700_000_000.0


def run(
    pattern: str, check: HealthCheck, state: HealthState | None = None, step: float = 1.0
) -> tuple[HealthState, list[tuple[int, HealthChange]]]:
    """Feed a pattern of letters; return the last state and the changes with their positions from 1."""
    state = state or HealthState()
    changes = []
    for position, letter in enumerate(pattern, 1):
        state, change = observe(state, check, LETTERS[letter], NOW + position * step)
        if change is not None:
            changes.append((position, change))
    return state, changes


def healthy(latency: int = 100, at: float = NOW, exit_ip: str = "") -> HealthState:
    return HealthState(
        verdict=HEALTHY,
        consecutive_successes=1,
        reported_latency_millis=latency,
        reported_exit_ip=exit_ip,
        reported_at=at,
    )


def test_only_failures_in_a_row_count() -> None:
    check = HealthCheck(failure_threshold=3)
    state, changes = run("FFS" * 8, check, healthy())
    assert changes == []
    assert state.verdict == HEALTHY
    state, changes = run("FFF", check, state)
    assert [(position, change.verdict) for position, change in changes] == [(3, UNHEALTHY)]


@pytest.mark.parametrize("threshold", [1, 2, 3, 100])
def test_a_threshold_flips_exactly_at_its_number(threshold: int) -> None:
    check = HealthCheck(failure_threshold=threshold, success_threshold=threshold)
    _, changes = run("F" * threshold * 2, check, healthy())
    assert [(position, change.verdict) for position, change in changes] == [(threshold, UNHEALTHY)]
    _, changes = run("S" * threshold * 2, check, HealthState(verdict=UNHEALTHY))
    assert [(position, change.verdict) for position, change in changes] == [(threshold, HEALTHY)]
    _, changes = run("S" * threshold * 2, check)
    assert [(position, change.verdict) for position, change in changes] == [(threshold, HEALTHY)]


def test_a_probe_without_verdict_moves_nothing() -> None:
    check = HealthCheck(failure_threshold=3)
    state, changes = run("N" * 1000, check, healthy())
    assert (state, changes) == (healthy(), [])
    _, changes = run("FNNFNF", check, healthy())
    assert [position for position, _ in changes] == [6]
    _, changes = run("N" * 100, check, HealthState(verdict=UNHEALTHY, consecutive_failures=3))
    assert changes == []


def test_a_lowered_threshold_waits_for_a_probe_that_counts() -> None:
    state = dataclasses.replace(healthy(), consecutive_failures=2, consecutive_successes=0)
    after, changes = run("NF", HealthCheck(failure_threshold=1), state)
    assert [(position, change.reason) for position, change in changes] == [(2, "ConnectTimeout")]
    assert after.verdict == UNHEALTHY


def test_why_a_proxy_is_not_ready_yet_is_told_once_a_reason() -> None:
    state, changes = run("FNFNNSFN", HealthCheck(failure_threshold=3, success_threshold=2))
    assert [(position, change.verdict, change.reason) for position, change in changes] == [
        (1, UNKNOWN, "ConnectTimeout"),
        (2, UNKNOWN, "TargetUnavailable"),
    ]
    _, changes = run("FF", HealthCheck(failure_threshold=3), state)
    assert [(position, change.verdict) for position, change in changes] == [(2, UNHEALTHY)]


def test_a_change_tells_what_the_probe_found() -> None:
    _, changes = run("F", HealthCheck(failure_threshold=1))
    assert changes[0][1] == HealthChange(
        verdict=UNHEALTHY,
        reason="ConnectTimeout",
        message="proxy 10.0.0.1:3128: no answer",
        checked_at="2023-11-14T22:13:21Z",
    )
    works = dataclasses.replace(WORKS, exit_ip="203.0.113.7")
    _, change = observe(HealthState(), HealthCheck(), works, NOW)
    assert change is not None
    assert (change.latency_millis, change.exit_ip) == (100, "203.0.113.7")


@pytest.mark.parametrize(
    ("reported", "latency", "age", "told"),
    [
        (100, 151, 600, True),
        (100, 150, 600, False),
        (100, 49, 600, True),
        (100, 50, 600, False),
        (10, 31, 600, True),
        (10, 30, 600, False),
        (30, 10, 600, False),
        (100, 1000, 599, False),
        (100, 1000, -3600, True),
    ],
)
def test_latency_is_told_when_it_moved_much_and_the_last_report_is_old(
    reported: int, latency: int, age: float, told: bool
) -> None:
    state, change = observe(
        healthy(reported, NOW - age), HealthCheck(), dataclasses.replace(WORKS, latency_millis=latency), NOW
    )
    assert (change is not None) == told
    assert state.reported_latency_millis == (latency if told else reported)


def test_latency_is_told_only_while_healthy() -> None:
    state = HealthState(verdict=UNHEALTHY, reported_latency_millis=0, reported_at=NOW - 3600)
    assert observe(state, HealthCheck(success_threshold=2), WORKS, NOW)[1] is None


def test_another_exit_address_is_told_at_the_same_pace() -> None:
    works = dataclasses.replace(WORKS, exit_ip="203.0.113.8")
    for age, told in ((600, True), (599, False)):
        _, change = observe(healthy(100, NOW - age, "203.0.113.7"), HealthCheck(), works, NOW)
        assert (change is not None) == told
    assert observe(healthy(100, NOW - 600, "203.0.113.7"), HealthCheck(), WORKS, NOW)[1] is None


def test_the_worst_jitter_makes_six_reports_an_hour() -> None:
    state, reports = healthy(), 0
    for second in range(1, 3601):
        result = dataclasses.replace(WORKS, latency_millis=1 if second % 2 else 10_000, exit_ip=f"10.0.0.{second % 2}")
        state, change = observe(state, HealthCheck(), result, NOW + second)
        reports += change is not None
    assert reports <= 6


def test_the_state_is_plain_json() -> None:
    state, _ = run("FN", HealthCheck())
    read = json.loads(json.dumps(dataclasses.asdict(state)))
    assert HealthState(**read | {"reported_reasons": tuple(read["reported_reasons"])}) == state


@given(
    st.text(alphabet="SFN", max_size=60),
    st.integers(1, 5),
    st.integers(1, 5),
    st.sampled_from([UNKNOWN, HEALTHY, UNHEALTHY]),
)
def test_the_verdict_is_that_of_the_last_run_long_enough(
    pattern: str, failures: int, successes: int, verdict: str
) -> None:
    check = HealthCheck(failure_threshold=failures, success_threshold=successes)
    before = dataclasses.replace(healthy(), verdict=verdict, consecutive_successes=0)
    state, changes = run(pattern, check, before, step=0.001)
    counted = pattern.replace("N", "")
    last_broken = counted.rfind("F" * failures)
    last_working = counted.rfind("S" * successes)
    expected = verdict
    if last_broken >= 0 or last_working >= 0:
        expected = UNHEALTHY if last_broken > last_working else HEALTHY
    assert state.verdict == expected
    told = [change.verdict for _, change in changes]
    flips = [one for one in told if one != UNKNOWN]
    assert all(one != other for one, other in zip([verdict, *flips], flips, strict=False))
    assert ([verdict, *flips][-1]) == expected
    assert told.count(UNKNOWN) <= 2
