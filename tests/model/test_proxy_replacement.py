"""How a replacement is asked for, begins, and is taken up again."""

import dataclasses
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model import names, proxy_facts, proxy_replacement
from model.messages import ProxyReading
from model.proxy import Proxy, ProxySpec, ProxyStatus
from model.proxy_state import InstanceRecord, ProxyState, Replacement
from model.reasons import Cause, Provisioned
from model.status import build_status

SPEC = ProxySpec(mode="Managed", provider="box", drain_seconds=60, max_age_seconds=1000)
INSTANCE = InstanceRecord(provider_id="box/1", incarnation="i1", ip="10.0.0.1", created_at=5000.0)


def proxy(rotate: str = "", **changes: Any) -> Proxy:
    annotations = {names.ANNOTATION_ROTATE: rotate} if rotate else {}
    values: dict[str, Any] = {"namespace": "ns", "name": "n", "uid": "u", "generation": 3, "spec": SPEC}
    return Proxy(**(values | {"annotations": annotations} | changes))


def state(**changes: Any) -> ProxyState:
    values: dict[str, Any] = {"namespace": "ns", "name": "n", "uid": "u", "instance": INSTANCE}
    return ProxyState(**(values | changes))


class TestAge:
    @given(st.text(min_size=1, max_size=40), st.text(min_size=1, max_size=40), st.integers(60, 10**8))
    def test_comes_in_the_last_tenth_before_the_maximum(self, uid: str, incarnation: str, maximum: int) -> None:
        aged = proxy(spec=dataclasses.replace(SPEC, max_age_seconds=maximum))
        record = dataclasses.replace(INSTANCE, incarnation=incarnation)
        at = proxy_replacement.replace_at(state(uid=uid, instance=record), aged)
        assert at is not None
        assert 5000 + 0.9 * maximum - 1e-3 <= at <= 5000 + maximum

    def test_of_a_fleet_made_at_once_comes_at_different_times(self) -> None:
        times = {proxy_replacement.replace_at(state(uid=f"u{number}"), proxy()) for number in range(100)}
        buckets = {int((at - 5900) // 10) for at in times if at is not None}
        assert len(times) == 100
        assert len(buckets) == 10

    def test_of_the_next_incarnation_is_another(self) -> None:
        second = dataclasses.replace(INSTANCE, incarnation="i2")
        one, other = (proxy_replacement.replace_at(state(instance=record), proxy()) for record in (INSTANCE, second))
        assert one != other

    @pytest.mark.parametrize(
        ("instance", "maximum"), [(None, 60), (INSTANCE, None), (dataclasses.replace(INSTANCE, created_at=0.0), 60)]
    )
    def test_is_no_reason_without_a_maximum_or_a_birth(self, instance: Any, maximum: Any) -> None:
        aged = proxy(spec=dataclasses.replace(SPEC, max_age_seconds=maximum))
        assert proxy_replacement.replace_at(state(instance=instance), aged) is None

    def test_is_reached_at_exactly_its_time(self) -> None:
        at = proxy_replacement.replace_at(state(), proxy())
        assert at is not None
        for now, too_old in ((at - 0.001, False), (at, True), (at + 0.001, True)):
            desired = proxy_facts.desired(ProxyReading(proxy=proxy()), state(), now)
            assert desired is not None
            assert desired.too_old is too_old


class TestRotation:
    @pytest.mark.parametrize("nothing", [{"instance": None}, {"managed": False, "instance": None}])
    def test_without_an_instance_counts_as_handled(self, nothing: dict[str, Any]) -> None:
        held = state(**nothing)
        proxy_replacement.take_rotation(held, proxy("1"))
        assert (held.handled_rotate, held.rotation_asked) == ("1", False)
        assert not proxy_replacement.ask_for_rotation(held)
        assert not held.rotation_asked

    def test_is_handled_once_a_replacement_begins_for_it(self) -> None:
        held = state()
        proxy_replacement.take_rotation(held, proxy("1"))
        assert (held.rotation_asked, held.handled_rotate) == (True, "")
        proxy_replacement.begin(held, proxy("1"), Cause.ROTATION, 100.0)
        assert (held.rotation_asked, held.handled_rotate) == (False, "1")
        proxy_replacement.take_rotation(held, proxy("1"))
        assert not held.rotation_asked

    def test_asked_for_again_while_it_runs_is_kept_for_the_next_instance(self) -> None:
        held = state()
        proxy_replacement.take_rotation(held, proxy("1"))
        proxy_replacement.begin(held, proxy("1"), Cause.ROTATION, 100.0)
        proxy_replacement.take_rotation(held, proxy("2"))
        proxy_replacement.begin(held, proxy("2"), Cause.ROTATION, 100.0)
        held.instance = held.replacing = None
        proxy_replacement.take_rotation(held, proxy("2"))
        assert not proxy_replacement.ask_for_rotation(held)
        assert (held.rotation_asked, held.handled_rotate) == (True, "1")

    @pytest.mark.parametrize("value", ["", "1"])
    def test_an_annotation_that_was_handled_or_taken_off_asks_for_nothing(self, value: str) -> None:
        held = state(seen_rotate="1", handled_rotate="1")
        proxy_replacement.take_rotation(held, proxy(value))
        assert (held.rotation_asked, held.handled_rotate) == (False, "1")

    def test_by_hand_before_anything_was_read_is_remembered(self) -> None:
        assert proxy_replacement.ask_for_rotation(ProxyState(namespace="ns", name="n"))


class TestBeginning:
    def test_sets_the_end_of_the_drain_once(self) -> None:
        held = state()
        for now in (100.0, 130.0):
            proxy_replacement.begin(held, proxy(), Cause.SPEC, now)
        assert held.replacing == Replacement(incarnation="i1", cause=Cause.SPEC, drain_ends_at=160.0)
        assert held.is_replacing
        assert not held.runs
        held.instance = dataclasses.replace(INSTANCE, incarnation="i2")
        assert held.runs

    @pytest.mark.parametrize(("ip", "drain"), [("", 60), ("10.0.0.1", 0)])
    def test_drains_nothing_that_serves_nobody(self, ip: str, drain: int) -> None:
        held = state(instance=dataclasses.replace(INSTANCE, ip=ip))
        spec = dataclasses.replace(SPEC, drain_seconds=drain)
        proxy_replacement.begin(held, proxy(spec=spec), Cause.SPEC, 100.0)
        assert held.replacing == Replacement(incarnation="i1", cause=Cause.SPEC)


class TestAnotherWorkflow:
    def status(self, cause: Cause, reason: Provisioned, message: str) -> ProxyStatus:
        begun = state(replacing=Replacement(incarnation="i1", cause=cause, drain_ends_at=160.0))
        facts = proxy_facts.facts(begun, proxy(), reason, message)
        return build_status(ProxyStatus(), facts, "1970-01-01T00:01:40Z")

    @pytest.mark.parametrize("cause", list(Cause))
    @pytest.mark.parametrize(
        ("reason", "message"),
        [(Provisioned.REPLACING, ""), (Provisioned.TRANSIENT_ERROR, "busy"), (Provisioned.PAUSED, "paused")],
    )
    def test_goes_on_with_a_replacement_that_the_status_tells_of(
        self, cause: Cause, reason: Provisioned, message: str
    ) -> None:
        adopted = ProxyState(namespace="ns", name="n")
        proxy_facts.adopt_object(adopted, proxy(status=self.status(cause, reason, message)))
        ends_at = 0.0 if cause is Cause.STOPPED else 160.0
        assert adopted.replacing == Replacement(incarnation="i1", cause=cause, drain_ends_at=ends_at)
        assert adopted.is_replacing

    @pytest.mark.parametrize(
        ("reason", "message"), [(Provisioned.RUNNING, ""), (Provisioned.PROVISIONING, "still coming")]
    )
    def test_replaces_nothing_else(self, reason: Provisioned, message: str) -> None:
        for record in (INSTANCE, dataclasses.replace(INSTANCE, ip="")):
            status = build_status(
                ProxyStatus(),
                proxy_facts.facts(state(instance=record), proxy(), reason, message),
                "1970-01-01T00:01:40Z",
            )
            adopted = ProxyState(namespace="ns", name="n")
            proxy_facts.adopt_object(adopted, proxy(status=status))
            assert adopted.replacing is None

    @pytest.mark.parametrize("time", ["", "yesterday", "2026-01-01t00:00:00z", "2026-01-01T00:00:60Z", "2026-01-01"])
    def test_drains_nothing_where_somebody_wrote_another_time(self, time: str) -> None:
        status = self.status(Cause.SPEC, Provisioned.REPLACING, "")
        conditions = tuple(dataclasses.replace(one, last_transition_time=time) for one in status.conditions)
        adopted = ProxyState(namespace="ns", name="n")
        proxy_facts.adopt_object(adopted, proxy(status=dataclasses.replace(status, conditions=conditions)))
        assert adopted.replacing == Replacement(incarnation="i1", cause=Cause.SPEC)
