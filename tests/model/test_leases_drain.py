"""A proxy that drains: nobody new gets it, and those who have it stay no longer than the drain."""

from typing import Any

import pytest

from model import lease_list, lease_snapshot, lease_transitions
from model.lease_answers import Answer, Granted, NoMatch, SessionUnavailable, Word
from model.lease_operations import Acquire
from model.messages import BrokerTell, LeasingView, ProxyReference
from tests.model.lease_fixtures import COOLDOWN, MINUTE, START, Leasing


def draining(leasing: Leasing, left: int, **changes: Any) -> Answer:
    return leasing.tell("ns/a", leasable=False, drain_ends_at=leasing.table.now + left, **changes)


def ends_after(answer: Answer) -> int:
    assert isinstance(answer, Granted), answer
    assert answer.ttl_millis == answer.expires_millis - START
    return answer.ttl_millis


@pytest.fixture
def leasing() -> Leasing:
    leasing = Leasing()
    leasing.tell("ns/a")
    leasing.grant("lease", ttl=2 * MINUTE)
    return leasing


@pytest.mark.parametrize("leasable", [True, False])
def test_it_is_not_handed_out_and_waiting_does_not_help(leasing: Leasing, leasable: bool) -> None:
    leasing.in_session("first", "session")
    draining(leasing, 5 * MINUTE)
    leasing.tell("ns/a", leasable=leasable, drain_ends_at=START + 5 * MINUTE)
    assert leasing.acquire("other") == NoMatch(1, 0, 0, 1)
    assert leasing.in_session("second", "session", strict=True) == SessionUnavailable(0)


@pytest.mark.parametrize(
    ("asked", "granted"),
    [(MINUTE, MINUTE), (3 * MINUTE, 3 * MINUTE), (60 * MINUTE, 5 * MINUTE)],
    ids=["earlier", "within the drain", "beyond it"],
)
def test_a_renewal_ends_with_the_drain_at_the_latest(leasing: Leasing, asked: int, granted: int) -> None:
    draining(leasing, 5 * MINUTE)
    for _ in range(2):
        assert ends_after(leasing.renew("lease", asked)) == granted
    assert ends_after(leasing.look("lease")) == granted
    assert leasing.active("ns/a", START + granted - 1) == 1
    assert leasing.active("ns/a", START + granted) == 0


def test_a_drain_takes_nothing_away_that_was_granted(leasing: Leasing) -> None:
    draining(leasing, MINUTE)
    assert ends_after(leasing.look("lease")) == 2 * MINUTE
    assert ends_after(leasing.renew("lease", 60 * MINUTE)) == 2 * MINUTE


def test_a_renewal_at_the_drain_s_end_is_refused_and_changes_nothing(leasing: Leasing) -> None:
    draining(leasing, MINUTE)
    leasing.pass_time(MINUTE - 1)
    assert isinstance(leasing.renew("lease"), Granted)
    leasing.pass_time(1)
    before = leasing.look("lease")
    assert leasing.renew("lease") is Word.REVOKED
    assert leasing.look("lease") == before
    assert isinstance(before, Granted)


def test_after_a_drain_that_was_called_off_the_normal_rules_hold(leasing: Leasing) -> None:
    draining(leasing, MINUTE)
    leasing.pass_time(MINUTE)
    leasing.tell("ns/a")
    leasing.grant("other")
    assert isinstance(leasing.renew("lease", 60 * MINUTE), Granted)


def test_another_instance_revokes_what_was_left_and_is_handed_out(leasing: Leasing) -> None:
    draining(leasing, MINUTE)
    leasing.tell("ns/a", instance="two")
    assert leasing.renew("lease") is Word.REVOKED
    assert leasing.grant("other").active_leases == 1


def test_reports_releases_and_repeats_go_on(leasing: Leasing) -> None:
    asked = Acquire("lease", {}, "", 2 * MINUTE, COOLDOWN)
    draining(leasing, MINUTE)
    assert isinstance(leasing.table.apply(asked), Granted)
    assert leasing.report("lease") is Word.DONE
    assert leasing.release("lease") is Word.DONE
    assert leasing.active("ns/a") == 0


def test_a_drain_goes_on_in_the_next_run(leasing: Leasing) -> None:
    draining(leasing, 5 * MINUTE)
    leasing.table = lease_snapshot.load(lease_snapshot.dump(leasing.table))
    assert ends_after(leasing.renew("lease", 60 * MINUTE)) == 5 * MINUTE
    assert leasing.acquire("other") == NoMatch(1, 0, 0, 1)


def test_a_broker_without_room_still_lets_a_proxy_drain() -> None:
    leasing = Leasing(limit=2000)
    for place in range(20):
        leasing.tell(f"ns/{place:02}")
    leasing.tell("ns/a", max_leases=10_000, latency_millis=1)
    leasing.grant("lease")
    count = 0
    while leasing.acquire(f"other-{count}") is not Word.FULL:
        count += 1
    for place in range(20):
        assert leasing.tell(f"ns/{place:02}", leasable=False, drain_ends_at=START + MINUTE) is Word.DONE
    assert leasing.table.budget.used > leasing.table.budget.limit
    assert draining(leasing, MINUTE) is Word.DONE
    assert draining(leasing, MINUTE, latency_millis=1) is Word.DONE
    assert draining(leasing, MINUTE, attributes={"much": "x" * 400}) is Word.FULL
    assert leasing.table.proxies.by_id["ns/a"].view.drain_ends_at == START + MINUTE
    assert ends_after(leasing.renew("lease", 60 * MINUTE)) == MINUTE


def test_running_leases_are_counted_at_the_asker_s_time_on_the_present_instance(leasing: Leasing) -> None:
    leasing.tell("ns/b")
    leasing.grant("long", ttl=60 * MINUTE)

    def counts(now: int) -> dict[str, lease_list.LeasesOn] | None:
        text = lease_list.encode_leases_on(leasing.table, now, ["ns/a", "ns/b", "ns/unknown"])
        return lease_list.decode_leases_on(text)

    assert counts(START) == {"ns/a": ("uid-ns/a", "one", 1), "ns/b": ("uid-ns/b", "one", 1)}
    assert counts(START + 2 * MINUTE) == {"ns/a": ("uid-ns/a", "one", 0), "ns/b": ("uid-ns/b", "one", 1)}
    leasing.tell("ns/b", instance="two")
    assert counts(START) == {"ns/a": ("uid-ns/a", "one", 1), "ns/b": ("uid-ns/b", "two", 0)}
    assert (
        lease_list.decode_leases_on(lease_list.encode_leases_on(Leasing(primed=False).table, START, ["ns/a"])) is None
    )


def test_the_end_of_a_drain_is_in_what_a_workflow_tells() -> None:
    view = LeasingView(
        ip="192.0.2.1",
        port=3128,
        phase="Ready",
        healthy=True,
        latency_millis=1,
        max_leases=1,
        instance="one",
        leasable=False,
        drain_ends_at=START,
    )
    tell = BrokerTell(reference=ProxyReference(namespace="ns", name="a", uid="u"), order=(1, 2), view=view)
    leasing = Leasing()
    leasing.table.apply(lease_transitions.operation_of(tell))
    assert leasing.table.proxies.by_id["ns/a"].view.drain_ends_at == START
