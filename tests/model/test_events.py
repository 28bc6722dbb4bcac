"""Which changes of a status are an event."""

import dataclasses
from typing import Any

import pytest

from model.events import events_of
from model.messages import ObjectEvent
from model.proxy import ProxyStatus
from model.reasons import Provisioned
from model.status import Facts, Health, build_status

EMPTY = ProxyStatus()


def status(reason: Provisioned, previous: ProxyStatus = EMPTY, now: str = "2026-01-01T00:00:00Z", **facts: Any) -> Any:
    return build_status(previous, Facts(managed=True, reason=reason, **facts), now)


def running(health: Health | None = None, ip: str = "10.0.0.1", **facts: Any) -> ProxyStatus:
    values = {"provisioned": True, "ip": ip, "provider_id": "box/1", "incarnation": "i1", **facts}
    made: ProxyStatus = status(Provisioned.RUNNING, health=health or Health(), **values)
    return made


GOOD = Health(status="True", reason="ProbeSucceeded", latency_millis=5)
BAD = Health(status="False", reason="ConnectRefused", message="connection refused")
NOBODY = Health(status="Unknown", reason="NoWorker", message="no worker serves egress-probes")
CREATING = status(Provisioned.CREATING)
DRAINING = status(Provisioned.REPLACING, message="the spec changed")
QUOTA = status(Provisioned.QUOTA_EXCEEDED, message="8 of 8 in use")
DELETING = status(Provisioned.DELETING, deleting=True)


def told(*events: tuple[str, str, str]) -> list[ObjectEvent]:
    return [ObjectEvent(warning=kind == "Warning", reason=reason, message=text) for kind, reason, text in events]


@pytest.mark.parametrize(
    ("before", "after", "events"),
    [
        (EMPTY, CREATING, [("Normal", "Creating", "making an instance")]),
        (CREATING, status(Provisioned.PROVISIONING, provider_id="box/1"), []),
        (CREATING, running(), [("Normal", "Running", "running at 10.0.0.1")]),
        (EMPTY, running(), [("Normal", "Running", "running at 10.0.0.1")]),
        (running(), running(ip="10.0.0.2"), [("Normal", "Running", "running at 10.0.0.2")]),
        (running(), running(incarnation="i2"), [("Normal", "Running", "running at 10.0.0.1")]),
        (running(), running(GOOD), [("Normal", "Healthy", "a probe through it succeeded")]),
        (running(GOOD), running(BAD), [("Warning", "Unhealthy", "ConnectRefused: connection refused")]),
        (running(BAD), running(GOOD), [("Normal", "Healthy", "a probe through it succeeded")]),
        (
            CREATING,
            running(GOOD),
            [("Normal", "Running", "running at 10.0.0.1"), ("Normal", "Healthy", "a probe through it succeeded")],
        ),
        (running(GOOD), running(NOBODY), [("Warning", "NoWorker", "no worker serves egress-probes")]),
        (running(GOOD), DRAINING, [("Normal", "Replacing", "the spec changed")]),
        (DRAINING, CREATING, [("Normal", "Creating", "making an instance")]),
        (
            running(GOOD),
            status(Provisioned.PAUSED),
            [("Normal", "Paused", "no provider calls and no leases until spec.paused is false")],
        ),
        (running(GOOD), DELETING, [("Normal", "Deleting", "deleting what belongs to it")]),
        (
            running(GOOD),
            status(Provisioned.TRANSIENT_ERROR, deleting=True, message="no answer"),
            [("Warning", "TransientError", "no answer"), ("Normal", "Deleting", "deleting what belongs to it")],
        ),
        (status(Provisioned.TRANSIENT_ERROR, deleting=True), DELETING, []),
        (EMPTY, status(Provisioned.EXTERNAL, provisioned=True), []),
        (
            running(GOOD),
            running(GOOD, not_taken_on="the budget is used up"),
            [("Warning", "LeaseBrokerFull", "the budget is used up")],
        ),
        (EMPTY, EMPTY, []),
    ],
)
def test_a_transition_is_told_as_a_human_wants_it(
    before: ProxyStatus, after: ProxyStatus, events: list[tuple[str, str, str]]
) -> None:
    assert events_of(before, after) == told(*events)


@pytest.mark.parametrize(
    "reason",
    [
        Provisioned.QUOTA_EXCEEDED,
        Provisioned.ACCESS_DENIED,
        Provisioned.CLOUD_INIT_ERROR,
        Provisioned.PROVIDER_NOT_CONFIGURED,
        Provisioned.PERMANENT_ERROR,
        Provisioned.TRANSIENT_ERROR,
        Provisioned.NAME_TAKEN,
        Provisioned.NO_WORKER,
        Provisioned.INSTANCE_STOPPED,
        Provisioned.INSTANCE_MISSING,
    ],
)
def test_what_is_wrong_is_a_warning_with_its_message_or_a_sentence(reason: Provisioned) -> None:
    assert events_of(CREATING, status(reason, message="in detail")) == told(("Warning", reason, "in detail"))
    (event,) = events_of(CREATING, status(reason))
    assert event.message


@pytest.mark.parametrize("reason", Provisioned)
@pytest.mark.parametrize("deleting", [False, True])
def test_other_words_times_and_numbers_are_no_event(reason: Provisioned, deleting: bool) -> None:
    provisioned = reason in (Provisioned.RUNNING, Provisioned.EXTERNAL)
    facts: dict[str, Any] = {"provisioned": provisioned, "deleting": deleting, "ip": "10.0.0.1" if provisioned else ""}
    for health in (GOOD, BAD, NOBODY):
        before = status(reason, message="first", health=health, **facts)
        other = dataclasses.replace(health, message="other", latency_millis=9, exit_ip="10.9.9.9", checked_at="later")
        after = status(
            reason, previous=before, now="2026-02-02T00:00:00Z", message="second", health=other,
            evaluated_generation=7, handled_retry="x", **facts,
        )  # fmt: skip
        assert events_of(before, after) == []


def test_a_reason_is_told_once_though_two_conditions_say_it() -> None:
    before = running(GOOD)
    after = status(Provisioned.NO_WORKER, provisioned=True, ip="10.0.0.1", health=NOBODY)
    assert [event.reason for event in events_of(before, after)] == ["NoWorker"]
