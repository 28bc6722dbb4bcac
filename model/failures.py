"""What a workflow does after a step failed: the reason to show, how long to wait, and whether to latch."""

import hashlib
from dataclasses import dataclass

from model.reasons import Provisioned

FIRST_WAIT_SECONDS = 10.0
LONGEST_WAIT_SECONDS = 300.0
SLOW_WAIT_SECONDS = 300.0
CREATE_DEADLINE_SECONDS = 60.0
"""How long a create without an answer may still take effect."""


@dataclass(frozen=True, kw_only=True)
class Failure:
    """A failed step.

    Attributes:
        reason: For the Provisioned condition.
        message: Error text, not yet cleaned.
        latched: No more provider calls until the cause may have changed.
        wait_seconds: Least wait before the next try; 0 means the doubling wait, and nothing at all when latched.
    """

    reason: Provisioned
    message: str
    latched: bool = False
    wait_seconds: float = 0.0


_RULES: dict[str, tuple[Provisioned, bool, float]] = {
    "QuotaExceededError": (Provisioned.QUOTA_EXCEEDED, False, SLOW_WAIT_SECONDS),
    "AccessDeniedError": (Provisioned.ACCESS_DENIED, False, SLOW_WAIT_SECONDS),
    "PermanentError": (Provisioned.PERMANENT_ERROR, True, 0.0),
    "NameTakenError": (Provisioned.NAME_TAKEN, True, 0.0),
    "ProviderNotConfiguredError": (Provisioned.PROVIDER_NOT_CONFIGURED, False, 0.0),
    "CloudInitError": (Provisioned.CLOUD_INIT_ERROR, False, 0.0),
}


def failure_of(error_type: str, message: str) -> Failure:
    """Return what to do about an error class of ``model.errors``; an unknown one is transient."""
    reason, latched, wait = _RULES.get(error_type, (Provisioned.TRANSIENT_ERROR, False, 0.0))
    return Failure(reason=reason, message=message, latched=latched, wait_seconds=wait)


def wait_after(failure: Failure, failures_in_a_row: int) -> float | None:
    """Return the seconds to wait before the next try, or None when only a change of the cause helps.

    Args:
        failure: The latest failure.
        failures_in_a_row: 1 for the first.
    """
    if failure.latched:
        return None
    if failure.wait_seconds:
        return failure.wait_seconds
    return doubling_wait(failures_in_a_row)


def doubling_wait(times: int) -> float:
    """Return the seconds to wait after so many failures in a row: 10, doubling to 300."""
    return min(LONGEST_WAIT_SECONDS, FIRST_WAIT_SECONDS * 2.0 ** min(max(times, 1) - 1, 16))


_REFUSALS = frozenset(
    {
        "QuotaExceededError",
        "AccessDeniedError",
        "PermanentError",
        "NameTakenError",
        "ProviderNotConfiguredError",
        "CloudInitError",
        "ObjectChanged",
    }
)


def is_refusal(error_type: str) -> bool:
    """Whether a create that failed so has certainly made nothing."""
    return error_type in _REFUSALS


def failed_cause(generation: int, spec_hash: str, entry_hash: str, handled_retry: str) -> str:
    """Return the fingerprint of what made a permanent failure; a change of any part lifts the latch."""
    retry = hashlib.sha256(handled_retry.encode()).hexdigest()[:8] if handled_retry else ""
    return f"generation={generation},spec={spec_hash},entry={entry_hash},retry={retry}"


def entry_hash_of(cause: str) -> str:
    """Return the provider's entry hash out of a fingerprint made by ``failed_cause``."""
    parts = dict(part.partition("=")[::2] for part in cause.split(","))
    return parts.get("entry", "")
