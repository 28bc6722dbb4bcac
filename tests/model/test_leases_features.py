"""Renewal, keys, sessions, doubts and the time of a refusal, on the table itself."""

import random

import pytest

from model import lease_snapshot
from model.lease_answers import Granted, NoMatch, SessionUnavailable, Word
from model.lease_book import Lease
from model.lease_doubts import SUSPENSION_MILLIS
from model.lease_operations import Acquire
from model.lease_sessions import SESSION_MILLIS
from tests.model.lease_fixtures import COOLDOWN, MINUTE, START, Leasing


class TestEarliest:
    def test_it_is_the_first_free_slot(self) -> None:
        leasing = Leasing()
        leasing.tell("ns/a", max_leases=2)
        leasing.tell("ns/b", max_leases=1)
        for lease_id, ttl in (("1", 3), ("2", 4), ("3", 2)):
            leasing.grant(lease_id, ttl=ttl * MINUTE)
        assert [leasing.earliest(), leasing.active("ns/a")] == [2 * MINUTE, 2]
        leasing.renew("1", MINUTE)
        leasing.pass_time(0)
        assert leasing.earliest() == MINUTE

    def test_a_lowered_capacity_needs_more_leases_to_end(self) -> None:
        leasing = Leasing()
        leasing.tell("ns/a", max_leases=3)
        for place in (1, 2, 3):
            leasing.grant(str(place), ttl=place * MINUTE)
        assert leasing.earliest() == MINUTE
        leasing.tell("ns/a", max_leases=1)
        assert leasing.earliest() == 3 * MINUTE

    def test_a_cooldown_and_a_slot_must_both_be_over(self) -> None:
        leasing = Leasing()
        leasing.tell("ns/a", max_leases=1)
        leasing.grant("1", "site", ttl=MINUTE)
        leasing.report("1")
        assert leasing.earliest("site") == COOLDOWN
        assert leasing.earliest("other") == MINUTE
        leasing.renew("1", 60 * MINUTE)
        leasing.pass_time(0)
        assert leasing.earliest("site") == 60 * MINUTE

    def test_what_time_does_not_help_has_none(self) -> None:
        leasing = Leasing()
        assert leasing.earliest() == 0
        leasing.tell("ns/never", max_leases=0)
        leasing.tell("ns/sick", healthy=False)
        assert leasing.earliest() == 0


class TestKeys:
    def test_a_released_lease_is_kept_for_its_key_and_for_nothing_else(self) -> None:
        leasing = Leasing()
        leasing.tell("ns/a", max_leases=1)
        first = leasing.keyed("1")
        assert isinstance(first, Granted)
        assert leasing.keyed("1") == first
        assert leasing.keyed("1", ttl=2 * MINUTE) == Word.KEY_REUSED
        leasing.release("1")
        leasing.release("1")
        assert leasing.keyed("1") == Word.LEASE_ENDED
        assert leasing.report("1") == leasing.look("1") == leasing.renew("1") == Word.UNKNOWN_LEASE
        assert leasing.active("ns/a") == 0
        for place in range(5000):
            leasing.grant(f"other-{place}")
            leasing.release(f"other-{place}")
        assert leasing.keyed("1") == Word.LEASE_ENDED
        leasing.pass_time(MINUTE + COOLDOWN)
        assert isinstance(leasing.keyed("1"), Granted)

    def test_under_pressure_ended_keys_make_room_oldest_first(self) -> None:
        leasing = Leasing(limit=2000)
        leasing.tell("ns/a", max_leases=10_000)
        for place in range(500):
            assert isinstance(leasing.keyed(f"{place}"), Granted)
            leasing.release(f"{place}")
            leasing.pass_time(1)
        assert leasing.table.budget.used <= 2000
        assert leasing.keyed("499") == Word.LEASE_ENDED


class TestSessions:
    def test_it_is_forgotten_a_quarter_of_an_hour_after_its_last_lease_expired(self) -> None:
        leasing = Leasing()
        leasing.tell("ns/a", latency_millis=20)
        leasing.in_session("1", "s", ttl=MINUTE)
        leasing.tell("ns/b", latency_millis=10)
        leasing.pass_time(MINUTE + SESSION_MILLIS - 1)
        assert leasing.table.sessions.idle.earliest() is not None
        again = leasing.in_session("2", "s", ttl=1)
        assert isinstance(again, Granted)
        assert again.proxy_id == "ns/a"
        leasing.pass_time(1 + SESSION_MILLIS)
        assert len(leasing.table.sessions) == 0
        other = leasing.in_session("3", "s")
        assert isinstance(other, Granted)
        assert other.proxy_id == "ns/b"

    def test_an_hour_without_an_event_forgets_it_too(self) -> None:
        leasing = Leasing()
        leasing.tell("ns/a", latency_millis=20)
        leasing.in_session("1", "s", ttl=MINUTE)
        leasing.pass_time(60 * MINUTE)
        assert len(leasing.table.sessions) == 0

    def test_a_replaced_proxy_ends_its_leases_and_not_the_session(self) -> None:
        leasing = Leasing()
        leasing.tell("ns/a")
        leasing.in_session("1", "s")
        leasing.tell("ns/a", instance="two", leasable=False)
        assert leasing.in_session("2", "s", strict=True) == SessionUnavailable(0)
        leasing.tell("ns/a", instance="two")
        assert isinstance(leasing.in_session("3", "s", strict=True), Granted)

    def test_under_pressure_idle_sessions_and_ended_leases_go_by_age(self) -> None:
        leasing = Leasing(limit=2000)
        leasing.tell("ns/a", max_leases=10_000)
        for place in range(1000):
            assert isinstance(leasing.in_session(f"{place}", f"s{place}", ttl=1000), Granted)
            leasing.pass_time(1001)
        assert leasing.table.budget.used <= 2000
        assert leasing.report("998", "ok") == Word.DONE
        assert len(leasing.table.sessions) > 5


class TestDoubts:
    def test_a_suspension_ends_by_itself_and_the_doubt_does_not(self) -> None:
        leasing = Leasing()
        leasing.tell("ns/a")
        leasing.grant("1", ttl=60 * MINUTE)
        assert leasing.report("1", "transport_error") == Word.DONE
        assert leasing.refuse("2") == NoMatch(1, 0, 0, 1)
        assert leasing.earliest() == 0
        leasing.pass_time(SUSPENSION_MILLIS - 1)
        assert leasing.refuse("2").unhealthy == 1
        leasing.pass_time(1)
        assert isinstance(leasing.acquire("3"), Granted)
        leasing.report("1", "transport_error")
        assert isinstance(leasing.acquire("4"), Granted), "one crawler alone takes no proxy out for good"
        assert leasing.table.doubts.proxy_ids() == ["ns/a"]
        leasing.probed("ns/a")
        leasing.report("1", "transport_error")
        assert leasing.refuse("5").unhealthy == 1

    def test_a_failed_probe_holds_on_and_one_that_passes_ends_it(self) -> None:
        leasing = Leasing()
        leasing.tell("ns/a")
        leasing.grant("1")
        leasing.report("1", "transport_error")
        leasing.probed("ns/a", hold=50_000)
        leasing.pass_time(49_999)
        assert leasing.refuse("2").unhealthy == 1
        leasing.probed("ns/a", uid="another")
        assert leasing.refuse("2").unhealthy == 1
        leasing.probed("ns/a")
        assert isinstance(leasing.acquire("3"), Granted)

    @pytest.mark.parametrize("change", ["instance", "healthy", "gone"])
    def test_another_instance_or_a_verdict_ends_it(self, change: str) -> None:
        leasing = Leasing()
        leasing.tell("ns/a")
        leasing.grant("1")
        leasing.report("1", "transport_error")
        if change == "instance":
            leasing.tell("ns/a", instance="two")
        elif change == "gone":
            leasing.gone("ns/a")
        else:
            leasing.tell("ns/a", attributes={"x": "y"})
            assert leasing.refuse("2").unhealthy == 1
            leasing.tell("ns/a", healthy=False)
        leasing.tell("ns/a", instance="two" if change == "instance" else "one")
        assert isinstance(leasing.acquire("3"), Granted)
        assert leasing.table.doubts.proxy_ids() == []

    @pytest.mark.parametrize("end", ["expired", "revoked"])
    def test_a_report_on_a_lease_that_is_over_doubts_nothing(self, end: str) -> None:
        leasing = Leasing()
        leasing.tell("ns/a")
        leasing.grant("1", ttl=MINUTE)
        if end == "revoked":
            leasing.tell("ns/a", instance="two")
        leasing.pass_time(MINUTE)
        assert leasing.report("1", "transport_error") == Word.DONE
        assert isinstance(leasing.acquire("2"), Granted)


def test_everything_is_in_the_snapshot() -> None:
    source = random.Random(1)
    leasing = Leasing()
    for place in range(20):
        leasing.tell(f"ns/{place:02}", max_leases=5)
    for place in range(60):
        body, session = source.randbytes(8).hex(), source.choice(["", f"{place % 7:016x}"])
        leasing.table.apply(Acquire(f"{place}", {}, "site", MINUTE * (1 + place % 3), COOLDOWN, body, session))
        if place % 5 == 0:
            leasing.release(f"{place}")
        if place % 11 == 0:
            leasing.report(f"{place + 1 - 1}", "transport_error")
    leasing.tell("ns/03", max_leases=5, instance="two")
    leasing.pass_time(MINUTE)
    snapshot = lease_snapshot.dump(leasing.table)
    restored = lease_snapshot.load(snapshot)
    assert lease_snapshot.dump(restored) == snapshot
    assert restored.leases.by_id == leasing.table.leases.by_id
    assert restored.budget.used == leasing.table.budget.used
    assert restored.doubts.proxy_ids() == leasing.table.doubts.proxy_ids() != []
    assert {lease.revoked for lease in restored.leases.by_id.values()} == {True, False}
    assert isinstance(next(iter(restored.leases.by_id.values())), Lease)
    assert restored.now == leasing.table.now > START
