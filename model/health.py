"""Thresholds: from single probes to a verdict about a proxy, and which of them are worth telling."""

import dataclasses
from dataclasses import dataclass
from datetime import UTC, datetime

from model.probe import ProbeOutcome, ProbeResult
from model.proxy import HealthCheck

UNKNOWN = "Unknown"
HEALTHY = "Healthy"
UNHEALTHY = "Unhealthy"

REPORT_SPACING_SECONDS = 600.0
"""Least time between two reports of a Healthy proxy: a report costs about ten history events, so that a proxy with the
worst jitter adds 60 an hour."""
LATENCY_FLOOR_MILLIS = 20
"""Latency that moved by no more than this is not told, however large the share."""


@dataclass(frozen=True, kw_only=True)
class HealthState:
    """What must be remembered from probe to probe; plain JSON values only.

    Attributes:
        verdict: ``Unknown``, ``Healthy`` or ``Unhealthy``.
        consecutive_failures: Broken probes since the last one that worked.
        consecutive_successes: Working probes since the last broken one.
        reported_latency_millis: Latency in the last report; 0 when it was no report of a Healthy proxy.
        reported_exit_ip: Exit address in the last report, likewise.
        reported_at: When the last report was made, in epoch seconds; 0 before the first.
        reported_reasons: The words that were told while the verdict was still Unknown.
    """

    verdict: str = UNKNOWN
    consecutive_failures: int = 0
    consecutive_successes: int = 0
    reported_latency_millis: int = 0
    reported_exit_ip: str = ""
    reported_at: float = 0.0
    reported_reasons: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class HealthChange:
    """Something the status has to show.

    Attributes:
        verdict: ``Unknown``, ``Healthy`` or ``Unhealthy``.
        reason: The word of the probe that made the change.
        message: Its detail, masked.
        latency_millis: Its latency; 0 unless it worked.
        exit_ip: The address the target saw, where it told.
        checked_at: When the probe ended; RFC 3339, UTC, whole seconds.
    """

    verdict: str
    reason: str
    message: str = ""
    latency_millis: int = 0
    exit_ip: str = ""
    checked_at: str = ""


def observe(
    state: HealthState, check: HealthCheck, result: ProbeResult, now: float
) -> tuple[HealthState, HealthChange | None]:
    """Fold one probe into the state.

    A broken probe ends a run of successes and a working one a run of failures; a probe without verdict moves neither.
    A run as long as its threshold decides the verdict. Told are: a change of the verdict; while it is still Unknown,
    each distinct reason once; while it is Healthy, a latency that moved by more than half and more than
    ``LATENCY_FLOOR_MILLIS``, or another exit address, at most once in ``REPORT_SPACING_SECONDS``.

    Args:
        state: The state before the probe.
        check: The thresholds.
        result: What the probe found.
        now: Wall clock when the probe ended, in epoch seconds.

    Returns:
        The state after the probe, and what to tell, or None.
    """
    counted = _count(state, result)
    verdict = _verdict(counted, check, result.outcome)
    if verdict != state.verdict:
        return _report(dataclasses.replace(counted, verdict=verdict, reported_reasons=()), result, now)
    if verdict == UNKNOWN and result.outcome is not ProbeOutcome.WORKS and result.reason not in state.reported_reasons:
        reasons = (*state.reported_reasons, result.reason)
        return _report(dataclasses.replace(counted, reported_reasons=reasons), result, now)
    if verdict == HEALTHY and _worth_telling(state, result) and _report_is_due(state, now):
        return _report(counted, result, now)
    return counted, None


def _count(state: HealthState, result: ProbeResult) -> HealthState:
    if result.outcome is ProbeOutcome.WORKS:
        successes = state.consecutive_successes + 1
        return dataclasses.replace(state, consecutive_failures=0, consecutive_successes=successes)
    if result.outcome is ProbeOutcome.BROKEN:
        failures = state.consecutive_failures + 1
        return dataclasses.replace(state, consecutive_failures=failures, consecutive_successes=0)
    return state


def _verdict(state: HealthState, check: HealthCheck, outcome: ProbeOutcome) -> str:
    """Return the verdict; a lowered threshold takes effect with the next probe that counts, whose reason it needs."""
    if outcome is ProbeOutcome.BROKEN and state.consecutive_failures >= check.failure_threshold:
        return UNHEALTHY
    if outcome is ProbeOutcome.WORKS and state.consecutive_successes >= check.success_threshold:
        return HEALTHY
    return state.verdict


def _worth_telling(state: HealthState, result: ProbeResult) -> bool:
    if result.outcome is not ProbeOutcome.WORKS:
        return False
    if result.exit_ip and result.exit_ip != state.reported_exit_ip:
        return True
    moved = abs(result.latency_millis - state.reported_latency_millis)
    return moved > LATENCY_FLOOR_MILLIS and moved > state.reported_latency_millis / 2


def _report_is_due(state: HealthState, now: float) -> bool:
    """Whether the last report is old enough; one from the future is, or a clock set back would silence the proxy."""
    return not 0 <= now - state.reported_at < REPORT_SPACING_SECONDS


def _report(state: HealthState, result: ProbeResult, now: float) -> tuple[HealthState, HealthChange]:
    reported = dataclasses.replace(
        state,
        reported_latency_millis=result.latency_millis,
        reported_exit_ip=result.exit_ip,
        reported_at=now,
    )
    change = HealthChange(
        verdict=state.verdict,
        reason=result.reason,
        message=result.message,
        latency_millis=result.latency_millis,
        exit_ip=result.exit_ip,
        checked_at=datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    )
    return reported, change
