"""The status of a ProviderHealth object, made from the outcome of a check and the status before."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from model.errors import clean_message, cut, mask_secrets
from model.provider_check_messages import CheckOutcome
from model.provider_health import TargetHealth

READY = "Ready"
ALL_TARGETS_READY = "AllTargetsReady"
TARGETS_NOT_READY = "TargetsNotReady"
CHECKS_NOT_IMPLEMENTED = "ChecksNotImplemented"
NO_TARGETS = "NoTargets"

_WORD_LIMIT = 253


def status_of(provider_type: str, outcome: CheckOutcome, previous: Mapping[str, Any]) -> dict[str, Any]:
    """Return the status to write.

    A check without an answer speaks of the targets known from before, or of one named like the provider: something is
    wrong with each of them, as far as anybody can tell.

    Args:
        provider_type: The entry's type in the providers config.
        outcome: Of the check.
        previous: The status as it is, or an empty one.
    """
    now = timestamp(outcome.checked_at)
    targets = _targets(outcome, previous)
    more, more_ready = (outcome.answer.left_out, outcome.answer.left_out_ready) if outcome.answer else (0, 0)
    ready = sum(target.ready for target in targets) + more_ready
    return {
        "type": provider_type,
        "targetsReady": f"{ready}/{len(targets) + more}",
        "lastCheckTime": now,
        "targets": _target_entries(targets, previous, now),
        "conditions": [_condition(outcome, targets, previous, now)],
    }


def is_ready(status: Mapping[str, Any]) -> bool:
    """Whether the condition Ready holds."""
    return ready_status(status) == "True"


def ready_status(status: Mapping[str, Any]) -> str:
    """Return the status of the condition Ready, "" where there is none."""
    return str(_ready_condition(status).get("status", ""))


def timestamp(unix_seconds: float) -> str:
    """Return a time as the API server writes it."""
    return datetime.fromtimestamp(unix_seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _targets(outcome: CheckOutcome, previous: Mapping[str, Any]) -> Sequence[TargetHealth]:
    if outcome.answer is not None:
        return outcome.answer.targets
    known = [target["name"] for target in previous.get("targets") or ()]
    return [
        TargetHealth(name=name, ready=False, reason=outcome.reason, message=outcome.message)
        for name in known or [outcome.provider]
    ]


def _target_entries(targets: Sequence[TargetHealth], previous: Mapping[str, Any], now: str) -> list[dict[str, Any]]:
    before = {target["name"]: target for target in previous.get("targets") or ()}
    return [_target_entry(target, before.get(target.name, {}), now) for target in targets]


def _target_entry(target: TargetHealth, before: Mapping[str, Any], now: str) -> dict[str, Any]:
    body = {
        "name": cut(target.name, _WORD_LIMIT),
        "address": mask_secrets(target.address) or before.get("address", ""),
        "reason": target.reason,
        "message": clean_message(target.message),
        "latencyMillis": target.latency_millis,
        "details": {key: mask_secrets(value) for key, value in target.details.items()},
    }
    same = before.get("ready") is target.ready
    return {
        **{key: value for key, value in body.items() if value},
        "ready": target.ready,
        "lastTransitionTime": before.get("lastTransitionTime", now) if same else now,
    }


def _condition(
    outcome: CheckOutcome, targets: Sequence[TargetHealth], previous: Mapping[str, Any], now: str
) -> dict[str, Any]:
    status, reason, message = _verdict(outcome, targets)
    before = _ready_condition(previous)
    same = before.get("status") == status
    return {
        "type": READY,
        "status": status,
        "reason": reason,
        "message": clean_message(message),
        "lastTransitionTime": before.get("lastTransitionTime", now) if same else now,
    }


def _verdict(outcome: CheckOutcome, targets: Sequence[TargetHealth]) -> tuple[str, str, str]:
    """Return status, reason and message of the condition."""
    if outcome.answer is not None and not outcome.answer.implemented:
        return "Unknown", CHECKS_NOT_IMPLEMENTED, "this type of provider cannot be checked"
    if not targets:
        return "Unknown", NO_TARGETS, "the provider has nothing to check"
    failing = [target for target in targets if not target.ready]
    if not failing:
        number = len(targets) + (outcome.answer.left_out if outcome.answer else 0)
        return "True", ALL_TARGETS_READY, f"all {number} targets passed" if number > 1 else "it passed"
    lines = [f"{target.name}: {target.reason}: {target.message}".rstrip(": ") for target in failing]
    return "False", TARGETS_NOT_READY, "; ".join(lines)


def _ready_condition(status: Mapping[str, Any]) -> Mapping[str, Any]:
    for condition in status.get("conditions") or ():
        if condition.get("type") == READY:
            found: Mapping[str, Any] = condition
            return found
    return {}
