"""What the status of a Proxy says, derived from what is known about it."""

import dataclasses
from dataclasses import dataclass, field

from model import reasons
from model.errors import clean_message, cut
from model.proxy import Condition, ProxyStatus

PENDING = "Pending"
PROVISIONING = "Provisioning"
READY = "Ready"
UNHEALTHY = "Unhealthy"
DELETING = "Deleting"
FAILED = "Failed"

CONDITION_PROVISIONED = "Provisioned"
CONDITION_HEALTHY = "Healthy"
CONDITION_READY = "Ready"

_SUMMARY_LIMIT = 256
"""Longest message of Ready, in bytes: the whole text stands in the condition that it sums up."""


@dataclass(frozen=True, kw_only=True)
class Health:
    """The verdict about a proxy as the status shows it; ``status`` is True, False or Unknown."""

    status: str = "Unknown"
    reason: str = reasons.HEALTHY_NO_VERDICT
    message: str = ""
    latency_millis: int = 0
    exit_ip: str = ""
    checked_at: str = ""


@dataclass(frozen=True, kw_only=True)
class Facts:
    """Everything a status is made from.

    Attributes:
        provisioned: Whether an instance (or an External endpoint) is there and running.
        reason: Reason of the Provisioned condition.
        message: Its message; error text is cleaned here.
        latched: Whether a permanent failure stands.
        paused: Whether a human froze the proxy; what runs goes on running, unprobed.
        ip: Address of the running instance; "" otherwise.
        evaluated_generation: The latest generation that a step was decided for, or 0.
        not_taken_on: Why the lease broker does not hand the proxy out, or "".
    """

    managed: bool
    deleting: bool = False
    provisioned: bool = False
    reason: reasons.Provisioned
    message: str = ""
    latched: bool = False
    paused: bool = False
    failed_cause: str = ""
    ip: str = ""
    provider_id: str = ""
    incarnation: str = ""
    evaluated_generation: int = 0
    handled_retry: str = ""
    handled_rotate: str = ""
    not_taken_on: str = ""
    health: Health = field(default_factory=Health)


def build_status(previous: ProxyStatus, facts: Facts, now: str) -> ProxyStatus:
    """Return the status that says ``facts``.

    Args:
        previous: The status as it is, for transition times.
        facts: What is known.
        now: RFC 3339, UTC; becomes the transition time of conditions whose status changes.
    """
    running = facts.provisioned and not facts.deleting
    health = _health(facts, running)
    phase = _phase(facts, health)
    generation = facts.evaluated_generation or previous.observed_generation
    wanted = (
        (
            CONDITION_PROVISIONED,
            "True" if facts.provisioned and not facts.deleting else "False",
            str(facts.reason),
            facts.message,
        ),
        (CONDITION_HEALTHY, health.status, health.reason, health.message),
        (CONDITION_READY, *_ready(phase, facts, health)),
    )
    return ProxyStatus(
        phase=phase,
        ip=facts.ip if running and facts.managed else "",
        provider_id=facts.provider_id,
        incarnation=facts.incarnation,
        latency_millis=health.latency_millis or None,
        last_health_check_time=health.checked_at or (previous.last_health_check_time if running else ""),
        exit_ip=health.exit_ip,
        observed_generation=generation,
        failed_cause=facts.failed_cause,
        handled_retry=facts.handled_retry,
        handled_rotate=facts.handled_rotate,
        conditions=tuple(
            _condition(previous, type_, status, reason, message, generation, now)
            for type_, status, reason, message in wanted
        ),
    )


def _health(facts: Facts, running: bool) -> Health:
    if facts.paused:
        return Health(message="paused")
    return facts.health if running else Health(message="nothing to probe")


def same_status(one: ProxyStatus, other: ProxyStatus) -> bool:
    """Whether two statuses say the same, transition times aside."""
    return _timeless(one) == _timeless(other)


def _timeless(status: ProxyStatus) -> ProxyStatus:
    conditions = tuple(dataclasses.replace(condition, last_transition_time="") for condition in status.conditions)
    return dataclasses.replace(status, conditions=conditions)


def _phase(facts: Facts, health: Health) -> str:
    if facts.deleting:
        return DELETING
    if facts.paused:
        return PENDING
    if facts.latched:
        return FAILED
    if facts.provisioned and health.status == "True":
        return READY
    if facts.provisioned and health.status == "False":
        return UNHEALTHY
    if facts.provider_id or facts.reason in (reasons.Provisioned.CREATING, reasons.Provisioned.PROVISIONING):
        return PROVISIONING
    return PENDING


def _ready(phase: str, facts: Facts, health: Health) -> tuple[str, str, str]:
    if phase == READY and facts.not_taken_on:
        return "False", "LeaseBrokerFull", facts.not_taken_on
    if phase == READY:
        return "True", READY, ""
    if facts.paused or not facts.provisioned or facts.deleting:
        return "False", str(facts.reason), _summary(facts.message)
    return "False", health.reason, _summary(health.message)


def _summary(message: str) -> str:
    return cut(clean_message(message), _SUMMARY_LIMIT)


def _condition(
    previous: ProxyStatus, type_: str, status: str, reason: str, message: str, generation: int, now: str
) -> Condition:
    before = previous.condition(type_)
    unchanged = before is not None and before.status == status and before.last_transition_time
    return Condition(
        type=type_,
        status=status,
        reason=reason,
        message=clean_message(message),
        observed_generation=generation,
        last_transition_time=before.last_transition_time if before is not None and unchanged else now,
    )
