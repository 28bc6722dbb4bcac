"""From state and reading to what the pure rules take."""

import dataclasses
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from model import messages, names, proxy_facts
from model.failures import Failure, failed_cause
from model.health import HealthChange, HealthState
from model.proxy import Condition, HealthCheck, Proxy, ProxySpec, ProxyStatus
from model.proxy_state import InstanceRecord, ProxyState, Replacement
from model.reasons import Cause, Provisioned
from model.status import Health, build_status

NOW = "2026-01-01T00:00:00Z"
ROUTE = messages.ProviderRoute(task_queue="q", probe_task_queue="p", entry_hash="e1")
SPEC = ProxySpec(mode="Managed", provider="box", port=3130, attributes={"country": "de"}, max_leases=7)
EXTERNAL = ProxySpec(mode="External", endpoint_host="proxy.example.com", endpoint_port=8080)
GOOD = Health(
    status="True",
    reason="ProbeSucceeded",
    latency_millis=42,
    exit_ip="203.0.113.9",
    checked_at="2026-01-01T00:00:30Z",
)
INSTANCE = InstanceRecord(provider_id="box/1", incarnation="i1", spec_hash="v1-a", ip="10.0.0.1")


def proxy(**changes: Any) -> Proxy:
    values: dict[str, Any] = {"namespace": "ns", "name": "n", "uid": "u", "generation": 3, "spec": SPEC}
    return Proxy(**(values | changes))


def state(**changes: Any) -> ProxyState:
    values: dict[str, Any] = {"namespace": "ns", "name": "n", "uid": "u", "provider": "box", "health": GOOD}
    return ProxyState(**(values | changes))


def reading(found: Proxy | None, **changes: Any) -> messages.ProxyReading:
    values: dict[str, Any] = {"proxy": found, "spec_hash": "v1-a", "route": ROUTE}
    return messages.ProxyReading(**(values | changes))


def test_a_time_is_written_in_utc_whatever_its_zone() -> None:
    moment = datetime(2026, 1, 1, 1, 0, 0, 999_999, tzinfo=timezone(timedelta(hours=2)))
    assert proxy_facts.rfc3339(moment) == "2025-12-31T23:00:00Z"
    assert proxy_facts.rfc3339(datetime(2026, 1, 1, tzinfo=UTC)) == NOW


class TestDesired:
    def test_of_an_object_that_is_gone(self) -> None:
        assert proxy_facts.desired(reading(None), state(), 0.0) is None

    @pytest.mark.parametrize(
        ("finalizers", "deleting", "finalized"),
        [
            ((), False, False),
            ((names.FINALIZER,), False, True),
            # The reference's own finalizer does not protect our instance; it is still ours to release.
            (("crawl.example.com/proxy",), False, False),
            (("crawl.example.com/proxy",), True, True),
            (("foreign.example.com/finalizer",), True, False),
            (("foreign.example.com/crawl.example.com/",), True, False),
        ],
    )
    def test_finalized(self, finalizers: tuple[str, ...], deleting: bool, finalized: bool) -> None:
        desired = proxy_facts.desired(reading(proxy(finalizers=finalizers, deleting=deleting)), state(), 0.0)
        assert desired is not None
        assert desired.finalized is finalized

    @pytest.mark.parametrize(
        ("value", "skips"), [("true", True), ("True", False), ("false", False), ("", False), (None, False)]
    )
    def test_skip_cleanup_is_true_or_nothing(self, value: str | None, skips: bool) -> None:
        annotations = {} if value is None else {names.ANNOTATION_SKIP_CLEANUP: value}
        desired = proxy_facts.desired(reading(proxy(annotations=annotations)), state(), 0.0)
        assert desired is not None
        assert desired.skip_cleanup is skips

    @pytest.mark.parametrize(
        ("route", "remembered", "deleting", "uid", "known"),
        [
            (ROUTE, None, False, "u", True),
            (None, ROUTE, False, "u", False),
            (None, ROUTE, True, "u", True),
            (None, None, True, "u", False),
            (None, ROUTE, True, "former", False),
        ],
    )
    def test_a_config_edit_does_not_lose_an_instance_to_be_deleted(
        self, route: Any, remembered: Any, deleting: bool, uid: str, known: bool
    ) -> None:
        known_state = state(route=remembered, uid=uid, instance=INSTANCE)
        desired = proxy_facts.desired(reading(proxy(deleting=deleting), route=route), known_state, 0.0)
        assert desired is not None
        assert desired.provider_known is known

    @pytest.mark.parametrize(("until", "known"), [(0.0, False), (1_700_000_000.0, True)])
    def test_without_an_instance_a_route_is_kept_only_for_a_create_that_may_still_land(
        self, until: float, known: bool
    ) -> None:
        without = state(route=ROUTE, instance=None, create_may_land_until=until)
        desired = proxy_facts.desired(reading(proxy(deleting=True), route=None), without, 0.0)
        assert desired is not None
        assert desired.provider_known is known

    @pytest.mark.parametrize(
        ("generation", "spec_hash", "entry_hash", "retry", "latched"),
        [
            (3, "v1-a", "e1", "r1", True),
            (4, "v1-a", "e1", "r1", False),
            (3, "v1-b", "e1", "r1", False),
            (3, "v1-a", "e2", "r1", False),
            (3, "v1-a", "e1", "r2", False),
        ],
    )
    def test_a_latch_holds_until_any_part_of_its_cause_changes(
        self, generation: int, spec_hash: str, entry_hash: str, retry: str, latched: bool
    ) -> None:
        held = state(failed_cause=failed_cause(3, "v1-a", "e1", "r1"), entry_hash=entry_hash, handled_retry=retry)
        desired = proxy_facts.desired(reading(proxy(generation=generation), spec_hash=spec_hash), held, 0.0)
        assert desired is not None
        assert desired.failure_latched is latched


def test_recorded_is_the_instance_of_the_state() -> None:
    annotated = proxy(annotations={names.ANNOTATION_SPEC_HASH: "v1-z"})
    assert proxy_facts.recorded(state(), reading(annotated)).provider_id == ""
    recorded = proxy_facts.recorded(state(instance=INSTANCE), reading(annotated))
    assert (recorded.uid, recorded.provider_id, recorded.spec_hash) == ("u", "box/1", "v1-z")
    for cause in Cause:
        replaced = state(instance=INSTANCE, replacing=Replacement(incarnation="i1", cause=cause))
        rotating = proxy_facts.recorded(replaced, reading(annotated)).rotating
        assert rotating == ("i1" if cause is Cause.ROTATION else ""), "only what cannot be seen again is on record"
    assert proxy_facts.recorded(state(instance=INSTANCE), reading(None)).provider_id == "box/1"


class TestAdoption:
    def test_of_a_new_object(self) -> None:
        annotations = {names.ANNOTATION_RETRY: "1", names.ANNOTATION_ROTATE: "2"}
        adopted = ProxyState(namespace="ns", name="n")
        proxy_facts.adopt_object(adopted, proxy(annotations=annotations))
        assert (adopted.uid, adopted.managed, adopted.provider, adopted.instance) == ("u", True, "box", None)
        assert (adopted.handled_retry, adopted.handled_rotate) == ("1", "2")
        assert adopted.health == Health()

    def test_of_a_known_object_takes_up_all_that_its_status_remembers(self) -> None:
        former = state(instance=INSTANCE, failed_cause="", handled_retry="0", handled_rotate="0")
        facts = proxy_facts.facts(former, proxy(), Provisioned.RUNNING, "")
        status = build_status(ProxyStatus(), facts, NOW)
        annotations = {names.ANNOTATION_RETRY: "1", names.ANNOTATION_ROTATE: "2"}
        adopted = ProxyState(namespace="ns", name="n")
        proxy_facts.adopt_object(adopted, proxy(annotations=annotations, status=status))
        assert adopted.instance == InstanceRecord(provider_id="box/1", incarnation="i1", ip="10.0.0.1")
        assert adopted.health == GOOD
        assert adopted.health_state == HealthState(verdict="Healthy")
        assert (adopted.handled_retry, adopted.handled_rotate) == ("0", "0")
        again = build_status(status, proxy_facts.facts(adopted, proxy(), Provisioned.RUNNING, ""), "later")
        assert again == status

    def test_keeps_a_permanent_failure(self) -> None:
        adopted = ProxyState(namespace="ns", name="n")
        proxy_facts.adopt_object(adopted, proxy(status=ProxyStatus(phase="Failed", failed_cause="cause")))
        assert adopted.failed_cause == "cause"

    def test_a_rotation_asked_for_by_hand_before_anything_was_read_is_kept(self) -> None:
        known = ProxyStatus(phase="Ready", provider_id="box/1", incarnation="i1", ip="10.0.0.1")
        for status, kept in ((known, True), (ProxyStatus(), False)):
            asked = ProxyState(namespace="ns", name="n", rotation_asked=True)
            proxy_facts.adopt_object(asked, proxy(status=status))
            assert asked.rotation_asked is kept
        recreated = state(rotation_asked=True, uid="former")
        proxy_facts.adopt_object(recreated, proxy(status=known))
        assert not recreated.rotation_asked

    def test_takes_no_verdict_that_is_none(self) -> None:
        unknown = Condition(type="Healthy", status="Unknown", reason="NoVerdict")
        adopted = state()
        proxy_facts.adopt_object(adopted, proxy(status=ProxyStatus(phase="Ready", conditions=(unknown,))))
        assert adopted.health == Health()
        assert adopted.health_state == HealthState()


@pytest.mark.parametrize(
    ("reason", "provider_id", "may"),
    [
        (Provisioned.CREATING, "", True),
        (Provisioned.TRANSIENT_ERROR, "", True),
        (Provisioned.QUOTA_EXCEEDED, "", False),
        (Provisioned.INSTANCE_MISSING, "", False),
        (Provisioned.CREATING, "box/1", False),
    ],
)
def test_what_another_workflow_may_have_created_is_reckoned_with(
    reason: Provisioned, provider_id: str, may: bool
) -> None:
    conditions = (Condition(type="Provisioned", status="False", reason=reason),)
    status = ProxyStatus(phase="Provisioning", provider_id=provider_id, conditions=conditions)
    assert proxy_facts.may_have_been_created(proxy(status=status)) is may
    assert not proxy_facts.may_have_been_created(proxy(spec=EXTERNAL, status=status))
    assert not proxy_facts.may_have_been_created(proxy())


def test_forgetting_leaves_only_the_order_of_things() -> None:
    full = ProxyState(
        namespace="ns",
        name="n",
        uid="u",
        managed=False,
        chain_start=1,
        order=2,
        watches=3,
        fingerprint="f",
        provider="box",
        route=ROUTE,
        entry_hash="e",
        instance=INSTANCE,
        failure=Failure(reason=Provisioned.PERMANENT_ERROR, message="m"),
        failures_in_a_row=4,
        failed_cause="c",
        handled_retry="a",
        handled_rotate="b",
        failed_action="Create",
        create_sent=True,
        create_may_land_until=1.0,
        proven=True,
        early_ends=1,
        ended_incarnation="i0",
        create_not_before=2.0,
        seen_generation=6,
        seen_deleting=True,
        evaluated_generation=5,
        not_taken_on="full",
        health=GOOD,
        health_state=HealthState(verdict="Healthy"),
        health_subject="10.0.0.1:3128#i1",
        seen_rotate="b",
        rotation_asked=True,
        replacing=Replacement(incarnation="i1", cause=Cause.AGE),
        told=proxy_facts.view_of(proxy(), ProxyStatus(), ""),
        status=ProxyStatus(phase="Ready"),
    )
    fresh = ProxyState(namespace="ns", name="n")
    unset = [
        field.name for field in dataclasses.fields(full) if getattr(full, field.name) == getattr(fresh, field.name)
    ]
    assert unset == ["namespace", "name"]
    proxy_facts.forget_object(full)
    assert full == ProxyState(namespace="ns", name="n", chain_start=1, order=2, watches=3)


def test_an_instance_that_ends_before_a_probe_passed_delays_the_next_one() -> None:
    crashing = state()
    waits = []
    for number in range(8):
        proxy_facts.note_end(crashing, f"i{number}", 1000.0)
        proxy_facts.note_end(crashing, f"i{number}", 2000.0)
        waits.append(crashing.create_not_before - 1000.0)
    assert waits == [10, 20, 40, 80, 160, 300, 300, 300]
    crashing.proven = True
    proxy_facts.note_end(crashing, "i9", 1000.0)
    assert (crashing.early_ends, crashing.create_not_before, crashing.proven) == (0, 0.0, False)


@pytest.mark.parametrize(
    "changed",
    [
        {"instance": dataclasses.replace(INSTANCE, ip="10.0.0.2")},
        {"instance": dataclasses.replace(INSTANCE, incarnation="i2")},
    ],
)
def test_a_verdict_is_about_one_address_and_one_incarnation(changed: dict[str, Any]) -> None:
    before = proxy_facts.health_subject(state(instance=INSTANCE), proxy())
    assert before
    assert proxy_facts.health_subject(state(**changed), proxy()) not in ("", before)
    assert proxy_facts.health_subject(state(instance=None), proxy()) == ""


class TestFacts:
    def test_a_running_instance_goes_on_while_its_provider_cannot_be_asked(self) -> None:
        facts = proxy_facts.facts(state(instance=INSTANCE), proxy(), Provisioned.ACCESS_DENIED, "401")
        assert (facts.provisioned, facts.reason, facts.message) == (True, Provisioned.RUNNING, "AccessDenied: 401")
        assert facts.evaluated_generation == 3

    def test_without_an_address_the_reason_stands(self) -> None:
        coming = dataclasses.replace(INSTANCE, ip="")
        facts = proxy_facts.facts(state(instance=coming), proxy(), Provisioned.PROVISIONING, "m")
        assert (facts.provisioned, facts.reason, facts.message) == (False, Provisioned.PROVISIONING, "m")
        assert facts.provider_id == "box/1"

    def test_a_deletion_shows_even_while_it_runs(self) -> None:
        facts = proxy_facts.facts(state(instance=INSTANCE), proxy(deleting=True), Provisioned.DELETING, "m")
        assert (facts.deleting, facts.reason, facts.message) == (True, Provisioned.DELETING, "m")

    def test_one_that_is_being_replaced_says_why_whatever_else_there_is_to_say(self) -> None:
        replaced = state(instance=INSTANCE, replacing=Replacement(incarnation="i1", cause=Cause.ROTATION))
        for said, shown in (
            ("", "a rotation was asked for"),
            ("busy", "a rotation was asked for; busy"),
            ("a rotation was asked for; busy", "a rotation was asked for; busy"),
        ):
            facts = proxy_facts.facts(replaced, proxy(), Provisioned.TRANSIENT_ERROR, said)
            assert (facts.provisioned, facts.reason, facts.message) == (False, Provisioned.TRANSIENT_ERROR, shown)
        facts = proxy_facts.facts(replaced, proxy(deleting=True), Provisioned.DELETING, "bye")
        assert facts.message == "bye"
        another = state(instance=INSTANCE, replacing=Replacement(incarnation="i0", cause=Cause.ROTATION))
        assert proxy_facts.facts(another, proxy(), Provisioned.RUNNING, "").provisioned

    @pytest.mark.parametrize(("instance", "provisioned"), [(None, False), (INSTANCE, True)])
    @pytest.mark.parametrize("reason", [Provisioned.RUNNING, Provisioned.TRANSIENT_ERROR, Provisioned.CREATING])
    def test_a_paused_proxy_says_so_whatever_step_it_was_in(
        self, reason: Provisioned, instance: InstanceRecord | None, provisioned: bool
    ) -> None:
        paused = proxy(spec=dataclasses.replace(SPEC, paused=True))
        facts = proxy_facts.facts(state(instance=instance, failed_cause="cause"), paused, reason, "m")
        assert (facts.provisioned, facts.reason, facts.message) == (provisioned, Provisioned.PAUSED, "paused")
        assert facts.paused
        deleted = dataclasses.replace(paused, deleting=True)
        assert proxy_facts.facts(state(), deleted, Provisioned.DELETING, "m").reason is Provisioned.DELETING

    def test_external_is_always_provisioned(self) -> None:
        facts = proxy_facts.facts(state(managed=False), proxy(spec=EXTERNAL), Provisioned.EXTERNAL, "")
        assert (facts.provisioned, facts.reason) == (True, Provisioned.EXTERNAL)

    @pytest.mark.parametrize(("instance", "latched"), [(None, True), (INSTANCE, False)])
    def test_a_permanent_failure_is_failed_only_without_a_running_instance(
        self, instance: InstanceRecord | None, latched: bool
    ) -> None:
        held = state(instance=instance, failed_cause="cause")
        assert proxy_facts.facts(held, proxy(), Provisioned.PERMANENT_ERROR, "m").latched is latched


class TestLeasingView:
    def ready(self, of: Proxy, **changes: Any) -> messages.LeasingView:
        current = state(managed=of.spec.managed, instance=INSTANCE if of.spec.managed else None, **changes)
        reason = Provisioned.RUNNING if of.spec.managed else Provisioned.EXTERNAL
        status = build_status(ProxyStatus(), proxy_facts.facts(current, of, reason, ""), NOW)
        return proxy_facts.leasing_view(current, of, status)

    def test_of_a_managed_proxy(self) -> None:
        assert self.ready(proxy()) == messages.LeasingView(
            ip="10.0.0.1",
            port=3130,
            attributes={"country": "de"},
            phase="Ready",
            healthy=True,
            latency_millis=42,
            max_leases=7,
            instance="i1",
            leasable=True,
        )

    def test_of_an_external_proxy_changes_its_instance_with_the_endpoint(self) -> None:
        view = self.ready(proxy(spec=EXTERNAL))
        assert (view.ip, view.port, view.leasable) == ("proxy.example.com", 8080, True)
        moved = self.ready(proxy(spec=dataclasses.replace(EXTERNAL, endpoint_port=8081)))
        assert moved.instance != view.instance

    @pytest.mark.parametrize(
        "view_changes", [{"health": Health()}, {"health": dataclasses.replace(GOOD, status="False")}]
    )
    def test_only_a_healthy_proxy_is_leasable(self, view_changes: dict[str, Any]) -> None:
        view = self.ready(proxy(), **view_changes)
        assert (view.healthy, view.leasable) == (False, False)

    def test_a_proxy_being_deleted_is_never_leasable(self) -> None:
        view = self.ready(proxy(deleting=True))
        assert (view.leasable, view.deleting, view.healthy) == (False, True, False)

    def test_a_paused_proxy_is_not_leasable_and_keeps_its_instance(self) -> None:
        view = self.ready(proxy(spec=dataclasses.replace(SPEC, paused=True)))
        assert (view.leasable, view.healthy, view.instance, view.ip) == (False, False, "i1", "10.0.0.1")

    @pytest.mark.parametrize(("ends_at", "ip", "shown"), [(0.0, "", 0), (1234.5, "10.0.0.1", 1_234_500)])
    def test_holders_go_on_seeing_the_address_of_one_that_drains(self, ends_at: float, ip: str, shown: int) -> None:
        replacing = Replacement(incarnation="i1", cause=Cause.SPEC, drain_ends_at=ends_at)
        view = self.ready(proxy(), replacing=replacing)
        assert (view.leasable, view.ip, view.instance, view.drain_ends_at) == (False, ip, "i1", shown)
        gone = self.ready(proxy(deleting=True), replacing=replacing)
        assert (gone.ip, gone.drain_ends_at) == ("", 0)

    def test_a_proxy_without_an_address_is_never_leasable(self) -> None:
        odd = ProxyStatus(phase="Ready", ip="")
        assert not proxy_facts.view_of(proxy(), odd, "i1").leasable


def test_a_watch_probes_the_instance_or_the_endpoint() -> None:
    watch = proxy_facts.wanted_watch(state(instance=INSTANCE, chain_start=9, watches=4), proxy())
    assert (watch.host, watch.port, watch.order, watch.reference.uid) == ("10.0.0.1", 3130, (9, 5), "u")
    watch = proxy_facts.wanted_watch(state(managed=False), proxy(spec=EXTERNAL))
    assert (watch.host, watch.port) == ("proxy.example.com", 8080)


def test_a_watch_goes_on_unless_target_or_rules_change() -> None:
    watch = proxy_facts.wanted_watch(state(instance=INSTANCE), proxy())
    later = dataclasses.replace(watch, order=(9, 6), state=HealthState(verdict="Healthy"))
    assert proxy_facts.same_target(watch, later)
    for change in (
        {"host": "10.0.0.2"},
        {"port": 1},
        {"check": HealthCheck(interval_seconds=1)},
        {"reference": messages.ProxyReference(namespace="ns", name="n", uid="other")},
    ):
        assert not proxy_facts.same_target(watch, dataclasses.replace(watch, **change))


@pytest.mark.parametrize(
    ("verdict", "status"), [("Healthy", "True"), ("Unhealthy", "False"), ("Unknown", "Unknown"), ("?", "Unknown")]
)
def test_a_verdict_becomes_a_condition(verdict: str, status: str) -> None:
    change = HealthChange(
        verdict=verdict, reason="R", message="m", latency_millis=1, exit_ip="203.0.113.9", checked_at=NOW
    )
    assert proxy_facts.health_of(change) == Health(
        status=status, reason="R", message="m", latency_millis=1, exit_ip="203.0.113.9", checked_at=NOW
    )
