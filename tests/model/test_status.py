"""What the status of a Proxy says."""

import dataclasses
import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.proxy import Condition, ProxyStatus, proxy_from_object, status_to_object
from model.reasons import Provisioned
from model.status import Facts, Health, build_status, same_status

BEFORE, NOW = "2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z"
GOOD = Health(
    status="True",
    reason="ProbeSucceeded",
    latency_millis=42,
    exit_ip="203.0.113.9",
    checked_at="2026-01-01T00:00:30Z",
)
BAD = Health(status="False", reason="ConnectTimeout", message="no answer", checked_at="2026-01-01T00:00:40Z")


def running(**changes: Any) -> Facts:
    values: dict[str, Any] = {
        "managed": True,
        "provisioned": True,
        "reason": Provisioned.RUNNING,
        "ip": "10.0.0.1",
        "provider_id": "box/1",
        "incarnation": "i1",
        "evaluated_generation": 2,
        "health": GOOD,
    }
    return Facts(**(values | changes))


def waiting(reason: Provisioned, **changes: Any) -> Facts:
    return Facts(managed=True, reason=reason, evaluated_generation=1, **changes)


@pytest.mark.parametrize(
    ("facts", "phase", "provisioned", "healthy", "ready"),
    [
        (waiting(Provisioned.CREATING), "Provisioning", "False", "Unknown", "False"),
        (waiting(Provisioned.PROVISIONING, provider_id="box/1"), "Provisioning", "False", "Unknown", "False"),
        (waiting(Provisioned.REPLACING, provider_id="box/1"), "Provisioning", "False", "Unknown", "False"),
        (waiting(Provisioned.TRANSIENT_ERROR, provider_id="box/1"), "Provisioning", "False", "Unknown", "False"),
        (waiting(Provisioned.TRANSIENT_ERROR), "Pending", "False", "Unknown", "False"),
        (waiting(Provisioned.QUOTA_EXCEEDED), "Pending", "False", "Unknown", "False"),
        (waiting(Provisioned.INSTANCE_MISSING), "Pending", "False", "Unknown", "False"),
        (waiting(Provisioned.NO_WORKER), "Pending", "False", "Unknown", "False"),
        (waiting(Provisioned.PERMANENT_ERROR, latched=True), "Failed", "False", "Unknown", "False"),
        (running(health=Health()), "Provisioning", "True", "Unknown", "False"),
        (running(), "Ready", "True", "True", "True"),
        (running(health=BAD), "Unhealthy", "True", "False", "False"),
        (running(paused=True, reason=Provisioned.PAUSED), "Pending", "True", "Unknown", "False"),
        (waiting(Provisioned.PAUSED, paused=True, provider_id="box/1"), "Pending", "False", "Unknown", "False"),
        (waiting(Provisioned.PAUSED, paused=True, latched=True), "Pending", "False", "Unknown", "False"),
        (running(deleting=True, reason=Provisioned.DELETING), "Deleting", "False", "Unknown", "False"),
        (waiting(Provisioned.DELETING, deleting=True, latched=True), "Deleting", "False", "Unknown", "False"),
        (Facts(managed=False, provisioned=True, reason=Provisioned.EXTERNAL), "Pending", "True", "Unknown", "False"),
        (
            Facts(managed=False, provisioned=True, reason=Provisioned.EXTERNAL, health=GOOD),
            "Ready",
            "True",
            "True",
            "True",
        ),
        (
            Facts(managed=False, provisioned=True, reason=Provisioned.EXTERNAL, health=BAD),
            "Unhealthy",
            "True",
            "False",
            "False",
        ),
    ],
)
def test_phase_and_conditions(facts: Facts, phase: str, provisioned: str, healthy: str, ready: str) -> None:
    status = build_status(ProxyStatus(), facts, NOW)
    assert status.phase == phase
    assert [(condition.type, condition.status) for condition in status.conditions] == [
        ("Provisioned", provisioned),
        ("Healthy", healthy),
        ("Ready", ready),
    ]
    assert all(condition.reason for condition in status.conditions)


def test_ready_says_why_not() -> None:
    def ready(facts: Facts) -> tuple[str, str]:
        condition = build_status(ProxyStatus(), facts, NOW).condition("Ready")
        assert condition is not None
        return condition.reason, condition.message

    assert ready(running()) == ("Ready", "")
    assert ready(running(health=BAD)) == ("ConnectTimeout", "no answer")
    assert ready(running(health=Health())) == ("NoVerdict", "")
    assert ready(waiting(Provisioned.QUOTA_EXCEEDED, message="4 of 4")) == ("QuotaExceeded", "4 of 4")
    assert ready(running(deleting=True, reason=Provisioned.DELETING, message="bye")) == ("Deleting", "bye")


def test_a_paused_proxy_keeps_its_instance_on_record_and_no_verdict() -> None:
    before = build_status(ProxyStatus(), running(), BEFORE)
    status = build_status(before, running(paused=True, reason=Provisioned.PAUSED, message="paused"), NOW)
    assert (status.ip, status.provider_id, status.incarnation) == ("10.0.0.1", "box/1", "i1")
    said = {condition.type: (condition.status, condition.reason, condition.message) for condition in status.conditions}
    assert said == {
        "Provisioned": ("True", "Paused", "paused"),
        "Healthy": ("Unknown", "NoVerdict", "paused"),
        "Ready": ("False", "Paused", "paused"),
    }
    assert (status.exit_ip, status.latency_millis) == ("", None)


def test_a_transition_time_moves_only_with_the_status() -> None:
    before = build_status(ProxyStatus(), running(), BEFORE)
    after = build_status(before, running(health=BAD, message="still there"), NOW)
    times = {condition.type: condition.last_transition_time for condition in after.conditions}
    assert times == {"Provisioned": BEFORE, "Healthy": NOW, "Ready": NOW}
    same = build_status(after, running(health=dataclasses.replace(BAD, reason="TlsFailed", message="x")), "later")
    assert {condition.last_transition_time for condition in same.conditions} == {BEFORE, NOW}


def test_a_condition_without_a_time_gets_one() -> None:
    before = ProxyStatus(conditions=(Condition(type="Provisioned", status="True", reason="Running"),))
    condition = build_status(before, running(), NOW).condition("Provisioned")
    assert condition is not None
    assert condition.last_transition_time == NOW


@pytest.mark.parametrize(
    "facts",
    [
        running(provisioned=False, reason=Provisioned.REPLACING),
        running(deleting=True, reason=Provisioned.DELETING),
        running(provisioned=False, reason=Provisioned.INSTANCE_MISSING),
    ],
)
def test_address_and_verdict_go_together(facts: Facts) -> None:
    status = build_status(build_status(ProxyStatus(), running(), BEFORE), facts, NOW)
    healthy = status.condition("Healthy")
    assert healthy is not None
    assert healthy.status == "Unknown"
    assert healthy.reason == "NoVerdict"
    assert (status.ip, status.exit_ip, status.latency_millis, status.last_health_check_time) == ("", "", None, "")
    assert status.provider_id == "box/1"


def test_an_external_proxy_has_no_address_in_its_status() -> None:
    facts = Facts(managed=False, provisioned=True, reason=Provisioned.EXTERNAL, ip="10.0.0.1", health=GOOD)
    assert build_status(ProxyStatus(), facts, NOW).ip == ""


def test_the_generation_moves_only_once_evaluated() -> None:
    before = build_status(ProxyStatus(), running(evaluated_generation=7), BEFORE)
    after = build_status(before, running(evaluated_generation=0, health=BAD), NOW)
    assert after.observed_generation == 7
    assert {condition.observed_generation for condition in after.conditions} == {7}


def test_messages_are_masked_cut_and_free_of_what_differs_each_time() -> None:
    text = "dial user:S3cr3t-xyz@host:3128: request id: {}, at {} " + "é" * 2000
    one = build_status(ProxyStatus(), running(message=text.format("a1", "2026-01-01T00:00:01Z"), health=BAD), NOW)
    other = build_status(one, running(message=text.format("b2", "2026-01-01T00:00:02Z"), health=BAD), "later")
    assert one == other
    provisioned = one.condition("Provisioned")
    assert provisioned is not None
    assert "S3cr3t" not in provisioned.message
    assert len(provisioned.message.encode()) <= 1024


def test_messages_of_probes_are_masked_too() -> None:
    bad = dataclasses.replace(BAD, message="Proxy-Authorization: Basic S3cr3t-xyz")
    status = build_status(ProxyStatus(), running(health=bad), NOW)
    assert "S3cr3t" not in repr(status)


def test_only_times_may_differ_between_same_statuses() -> None:
    one = build_status(ProxyStatus(), running(), BEFORE)
    assert same_status(one, build_status(ProxyStatus(), running(), NOW))
    for change in (
        {"phase": "Failed"},
        {"ip": ""},
        {"incarnation": "i2"},
        {"latency_millis": 43},
        {"observed_generation": 3},
        {"failed_cause": "x"},
        {"handled_retry": "x"},
        {"last_health_check_time": NOW},
        {"conditions": one.conditions[:2]},
        {"conditions": (dataclasses.replace(one.conditions[0], message="x"), *one.conditions[1:])},
    ):
        assert not same_status(one, dataclasses.replace(one, **change)), change


WORDS = st.one_of(st.just(""), st.text(max_size=20), st.sampled_from(["password=x", "é" * 900, " a\n b "]))
HEALTHS = st.one_of(
    st.sampled_from([Health(), GOOD, BAD]),
    st.builds(
        Health,
        status=st.sampled_from(["True", "False", "Unknown"]),
        message=WORDS,
        latency_millis=st.integers(0, 10**6),
        exit_ip=st.sampled_from(["", "203.0.113.9"]),
        checked_at=st.sampled_from(["", NOW]),
    ),
)
FACTS = st.builds(
    Facts,
    managed=st.booleans(),
    deleting=st.booleans(),
    provisioned=st.booleans(),
    reason=st.sampled_from(list(Provisioned)),
    message=WORDS,
    latched=st.booleans(),
    paused=st.booleans(),
    failed_cause=WORDS,
    ip=st.sampled_from(["", "10.0.0.1"]),
    provider_id=st.sampled_from(["", "box/1"]),
    incarnation=st.sampled_from(["", "i1"]),
    evaluated_generation=st.integers(0, 10**9),
    handled_retry=WORDS,
    handled_rotate=WORDS,
    health=HEALTHS,
)


@given(FACTS, FACTS)
def test_a_status_reads_back_from_the_object_as_it_was_written(first: Facts, second: Facts) -> None:
    """The workflow compares what it would write with what it read: any loss would be a write on every look."""
    before = build_status(ProxyStatus(), first, BEFORE)
    for status in (before, build_status(before, second, NOW)):
        body = {
            "metadata": {"namespace": "ns", "name": "n", "uid": "u"},
            "spec": {"mode": "Managed"},
            "status": status_to_object(status),
        }
        assert proxy_from_object(body).status == status


@given(FACTS)
def test_saying_the_same_again_changes_nothing(facts: Facts) -> None:
    status = build_status(ProxyStatus(), facts, BEFORE)
    assert build_status(status, facts, NOW) == status


def test_every_status_is_one_of_the_known_phases() -> None:
    phases = {
        build_status(
            ProxyStatus(),
            Facts(
                managed=True,
                deleting=deleting,
                provisioned=provisioned,
                latched=latched,
                provider_id=provider_id,
                reason=reason,
                health=health,
            ),
            NOW,
        ).phase
        for deleting, provisioned, latched, provider_id, reason, health in itertools.product(
            (True, False), (True, False), (True, False), ("", "x"), Provisioned, (Health(), GOOD, BAD)
        )
    }
    assert phases == {"Pending", "Provisioning", "Ready", "Unhealthy", "Deleting", "Failed"}
