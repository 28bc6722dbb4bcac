"""Messages survive Temporal's data converter, and stay small."""

import dataclasses
import inspect
from datetime import UTC, datetime
from typing import Any

import pytest
from temporalio.converter import DataConverter

from model import messages
from model.failures import Failure
from model.health import HealthChange, HealthState
from model.instance import Instance, InstanceState
from model.proxy import Condition, HealthCheck, Placement, Proxy, ProxySpec, ProxyStatus
from model.proxy_state import InstanceRecord, ProxyState, Replacement
from model.reasons import Cause, Provisioned
from model.status import Health

REFERENCE = messages.ProxyReference(namespace="ns", name="n", uid="u")
ROUTE = messages.ProviderRoute(task_queue="q", probe_task_queue="p", entry_hash="e")
STATUS = ProxyStatus(
    phase="Ready",
    ip="10.0.0.1",
    provider_id="box/1",
    incarnation="i",
    latency_millis=5,
    last_health_check_time="2026-01-01T00:00:00Z",
    exit_ip="203.0.113.9",
    observed_generation=2,
    failed_cause="c",
    handled_retry="r",
    handled_rotate="o",
    conditions=(
        Condition(type="Ready", status="True", reason="Ready", message="é", observed_generation=2),
        Condition(type="Healthy", status="True", reason="ProbeSucceeded", last_transition_time="2026-01-01T00:00:00Z"),
    ),
)
CHECK = HealthCheck(probe_url="https://t.example.com/", expected_status_codes=(200, 301))
HEALTH_STATE = HealthState(verdict="Healthy", reported_at=1.5, reported_reasons=("A", "B"))
PROXY = Proxy(
    namespace="ns",
    name="n",
    uid="u",
    generation=2,
    resource_version="9",
    deleting=True,
    annotations={"a": "b"},
    finalizers=("x", "y"),
    spec=ProxySpec(
        mode="Managed",
        provider="box",
        placement=Placement(zone="z"),
        attributes={"k": "v", "z": ""},
        health_check=CHECK,
    ),
    status=STATUS,
)
INSTANCE = Instance(
    provider_id="box/1",
    incarnation="i",
    name="proxy-a",
    state=InstanceState.STOPPED,
    ip="10.0.0.1",
    uid="u",
    installation="x",
    spec_hash="v1-a",
    created_at=datetime(2026, 1, 1, 12, 0, 0, 123456, tzinfo=UTC),
    message="m",
)
VIEW = messages.LeasingView(
    ip="10.0.0.1",
    port=1,
    attributes={"a": "b"},
    phase="Ready",
    healthy=True,
    latency_millis=1,
    max_leases=2,
    instance="i",
    leasable=True,
    deleting=True,
    drain_ends_at=1_700_000_000_000,
)
WATCH = messages.WatchHealth(
    reference=REFERENCE,
    order=(1_700_000_000_000, 3),
    incarnation="i",
    host="h",
    port=1,
    check=CHECK,
    state=HEALTH_STATE,
)
EVENT = messages.ObjectEvent(warning=True, reason="Replacing", message="m")
POKE = messages.Poke(namespace="ns", name="n", uid="u", fingerprint="f", look=True, entry_hash="e")

SAMPLES: list[Any] = [
    POKE,
    REFERENCE,
    ROUTE,
    messages.ProxyReading(proxy=PROXY, spec_hash="h", cloud_init_error="e", route=ROUTE, fingerprint="f"),
    messages.ProxyReading(),
    messages.StatusWrite(reference=REFERENCE, status=STATUS, events=[EVENT]),
    EVENT,
    messages.UnmarkInstance(reference=REFERENCE, provider="box", provider_id="x", incarnation="i"),
    messages.DrainProxy(reference=REFERENCE, instance="i", ends_at=1_700_000_000_000),
    messages.SpecHashWrite(reference=REFERENCE, spec_hash="v1-a"),
    messages.InstanceQuery(provider="box", uid="u", provider_id="box/1"),
    messages.InstanceAnswer(instance=INSTANCE, entry_hash="e"),
    messages.InstanceAnswer(),
    messages.CreateInstance(reference=REFERENCE, provider="box"),
    messages.RemoveInstance(reference=REFERENCE, provider="box", provider_id="x", incarnation="i", replacing=True),
    WATCH,
    messages.HealthReport(
        state=HEALTH_STATE,
        change=HealthChange(verdict="Healthy", reason="R", message="m", latency_millis=1, exit_ip="i", checked_at="t"),
    ),
    VIEW,
    messages.BrokerTell(reference=REFERENCE, order=(1_700_000_000_000, 2), view=VIEW),
    messages.BrokerTell(reference=REFERENCE, order=(1, 2)),
    messages.BrokerAnswer(accepted=False, order=(3, 4), refusal="r"),
    messages.DriftQuery(provider="box"),
    messages.DriftReport(pokes=[POKE], proxies=1, instances=2),
    messages.ProviderQueue(name="box", task_queue="q"),
    ProxyState(namespace="ns", name="n"),
    ProxyState(
        namespace="ns",
        name="n",
        uid="u",
        managed=False,
        chain_start=1_700_000_000_000,
        order=2,
        watches=3,
        fingerprint="f",
        provider="box",
        route=ROUTE,
        entry_hash="e",
        instance=InstanceRecord(provider_id="box/1", incarnation="i", spec_hash="h", ip="10.0.0.1", created_at=1.25),
        failure=Failure(reason=Provisioned.NAME_TAKEN, message="m", latched=True, wait_seconds=300.0),
        failures_in_a_row=4,
        failed_cause="c",
        handled_retry="r",
        handled_rotate="o",
        evaluated_generation=5,
        health=Health(status="True", reason="R", message="m", latency_millis=1, exit_ip="i", checked_at="t"),
        health_state=HEALTH_STATE,
        seen_rotate="o2",
        rotation_asked=True,
        replacing=Replacement(incarnation="i", cause=Cause.AGE, drain_ends_at=1.5),
        told=VIEW,
        status=STATUS,
    ),
]


async def through_the_wire(value: Any) -> tuple[Any, int]:
    converter = DataConverter.default
    payloads = await converter.encode([value])
    decoded = await converter.decode(payloads, [type(value)])
    return decoded[0], len(payloads[0].data)


@pytest.mark.parametrize("value", SAMPLES, ids=lambda value: type(value).__name__)
async def test_a_message_arrives_as_it_was_sent(value: Any) -> None:
    arrived, _ = await through_the_wire(value)
    assert arrived == value
    assert type(arrived) is type(value)
    assert repr(arrived) == repr(value)


def test_every_message_is_tried() -> None:
    defined = {
        kind
        for _, kind in inspect.getmembers(messages, inspect.isclass)
        if kind.__module__ == messages.__name__ and dataclasses.is_dataclass(kind)
    }
    assert defined <= {type(sample) for sample in SAMPLES}


async def test_a_message_of_the_release_before_still_reads() -> None:
    """Edge workers run one release back and forth: new fields have defaults, unknown ones are ignored."""
    converter = DataConverter.default
    payloads = await converter.encode([{"namespace": "ns", "name": "n", "field_of_another_release": 1}])
    assert await converter.decode(payloads, [messages.Poke]) == [messages.Poke(namespace="ns", name="n")]


def largest_proxy() -> Proxy:
    """A Proxy with every field as long as the CRD and our own cuts let it be, in ASCII."""
    condition = Condition(
        type="Provisioned",
        status="False",
        reason="ProviderNotConfigured",
        message="m" * 1024,
        observed_generation=10**6,
    )
    return Proxy(
        namespace="n" * 63,
        name="n" * 253,
        uid="u" * 36,
        generation=10**6,
        resource_version="1" * 12,
        annotations={f"crawl.example.com/{key}": "v" * 256 for key in ("retry", "rotate", "skip-cleanup", "spec-hash")},
        finalizers=("crawl.example.com/finalizer",),
        spec=ProxySpec(
            mode="Managed",
            provider="p" * 63,
            placement=Placement(region="r" * 512, zone="z" * 512, machine_type="t" * 512, image="i" * 512),
            attributes={f"key-{number:03}": "v" * 57 for number in range(64)},
            health_check=HealthCheck(expected_status_codes=tuple(range(200, 232))),
        ),
        status=dataclasses.replace(
            STATUS, conditions=(condition,) * 3, handled_retry="v" * 256, handled_rotate="v" * 256
        ),
    )


async def size_of(value: Any) -> int:
    return (await through_the_wire(value))[1]


@pytest.mark.parametrize(
    "value",
    [
        messages.StatusWrite(reference=REFERENCE, status=largest_proxy().status),
        messages.BrokerTell(
            reference=REFERENCE,
            order=(1, 2),
            view=dataclasses.replace(VIEW, attributes=dict(largest_proxy().spec.attributes)),
        ),
        dataclasses.replace(WATCH, check=dataclasses.replace(CHECK, probe_url="https://" + "x" * 2040)),
    ],
    ids=lambda value: type(value).__name__,
)
async def test_the_largest_input_of_an_activity_is_small(value: Any) -> None:
    assert await size_of(value) < 5_000


async def test_500_pokes_of_drift_stay_below_the_limits_of_temporal() -> None:
    poke = messages.Poke(namespace="n" * 63, name="n" * 253, uid="u" * 36, look=True, entry_hash="e" * 64)
    assert await size_of(messages.DriftReport(pokes=[poke] * 500)) < 512 * 1024


async def test_a_new_run_starts_with_a_small_state() -> None:
    largest = largest_proxy()
    state = ProxyState(
        namespace="n" * 63,
        name="n" * 253,
        status=largest.status,
        told=dataclasses.replace(VIEW, attributes=dict(largest.spec.attributes)),
        failure=Failure(reason=Provisioned.NAME_TAKEN, message="m" * 1024),
    )
    assert await size_of(state) < 12_000
