"""What one probe through a proxy found out."""

from dataclasses import dataclass
from enum import StrEnum


class ProbeOutcome(StrEnum):
    """The three things a probe can say."""

    WORKS = "Works"
    """The expected answer came through the proxy."""
    BROKEN = "Broken"
    """The proxy is to blame."""
    NO_VERDICT = "NoVerdict"
    """The proxy reached out and the target refused or is down: nothing is proven, no counter moves."""


@dataclass(frozen=True, kw_only=True)
class ProbeResult:
    """One probe's result.

    Attributes:
        reason: ``ProbeSucceeded`` or the word for what went wrong, as in the Healthy condition and the metric.
        message: Detail for humans, masked.
        latency_millis: From the start of the connection to the status line; 0 unless the probe succeeded.
        exit_ip: The address the target saw, where it tells.
    """

    outcome: ProbeOutcome
    reason: str
    message: str = ""
    latency_millis: int = 0
    exit_ip: str = ""
