import pytest

from model.lease_answers import Granted, NoMatch, Stale, Word
from model.lease_operations import GiveBack, Latencies, Latency, Release, Report
from tests.model.lease_fixtures import COOLDOWN, MINUTE, START, Leasing


class TestSelection:
    def test_a_capacity_is_never_exceeded_and_a_release_frees_a_slot(self) -> None:
        leasing = Leasing()
        leasing.tell("ns/a", max_leases=2)
        assert [leasing.grant("1").active_leases, leasing.grant("2").active_leases] == [1, 2]
        assert leasing.refuse("3") == NoMatch(considered=1, at_capacity=1, in_cooldown=0, unhealthy=0)
        leasing.release("1")
        assert leasing.grant("4").active_leases == 2

    def test_the_least_loaded_comes_before_the_quickest(self) -> None:
        leasing = Leasing()
        leasing.tell("ns/a", latency_millis=1)
        leasing.tell("ns/b", latency_millis=99)
        assert [leasing.grant(str(place)).proxy_id for place in range(4)] == ["ns/a", "ns/b", "ns/a", "ns/b"]

    def test_equal_load_and_latency_go_by_id(self) -> None:
        leasing = Leasing()
        for proxy_id in ("ns/c", "ns/a", "ns/b"):
            leasing.tell(proxy_id)
        assert [leasing.grant(str(place)).proxy_id for place in range(3)] == ["ns/a", "ns/b", "ns/c"]

    def test_bulk_latencies_change_the_order_and_ignore_a_former_uid(self) -> None:
        leasing = Leasing()
        leasing.tell("ns/a", latency_millis=10)
        leasing.tell("ns/b", latency_millis=20)
        rows = [Latency("ns/b", "uid-ns/b", 5), Latency("ns/a", "another", 1), Latency("ns/none", "x", 1)]
        assert leasing.table.apply(Latencies(rows)) == Word.DONE
        granted = leasing.grant("1")
        assert (granted.proxy_id, granted.view.latency_millis) == ("ns/b", 5)

    def test_every_pair_of_a_selector_must_match(self) -> None:
        leasing = Leasing()
        leasing.tell("ns/a", attributes={"geo": "eu"})
        leasing.tell("ns/b", attributes={"geo": "eu", "asn": "1"})
        assert leasing.grant("1", geo="eu", asn="1").proxy_id == "ns/b"
        assert leasing.refuse("2", geo="us") == NoMatch(0, 0, 0, 0)
        assert leasing.refuse("3", purpose="x") == NoMatch(0, 0, 0, 0)

    def test_an_empty_value_also_matches_a_missing_key(self) -> None:
        leasing = Leasing()
        leasing.tell("ns/a", attributes={"geo": "eu"})
        assert leasing.grant("1", asn="").proxy_id == "ns/a"
        assert leasing.refuse("2", geo="").considered == 0

    def test_changed_attributes_move_a_proxy_between_selectors(self) -> None:
        leasing = Leasing()
        leasing.tell("ns/a", attributes={"geo": "eu"})
        leasing.grant("1", geo="eu")
        leasing.tell("ns/a", attributes={"geo": "us"})
        assert leasing.refuse("2", geo="eu").considered == 0
        assert leasing.grant("3", geo="us").active_leases == 2

    def test_more_selectors_than_are_kept_give_the_same_answers(self) -> None:
        leasing = Leasing()
        for place in range(100):
            leasing.tell(f"ns/{place:03}", attributes={"number": str(place)}, max_leases=2)
        for turn in range(2):
            for place in range(100):
                assert leasing.grant(f"{turn}-{place}", number=str(place)).proxy_id == f"ns/{place:03}"
        assert leasing.refuse("last", number="7") == NoMatch(1, 1, 0, 0)


class TestRefusals:
    def test_each_proxy_counts_under_its_first_reason(self) -> None:
        leasing = Leasing()
        leasing.tell("ns/full", max_leases=1)
        leasing.grant("1", "site")
        leasing.tell("ns/sick", healthy=False)
        leasing.tell("ns/draining", leasable=False)
        leasing.tell("ns/never", max_leases=0)
        leasing.tell("ns/deleting", phase="Deleting")
        assert leasing.refuse("2", "site") == NoMatch(considered=4, at_capacity=2, in_cooldown=0, unhealthy=2)
        leasing.report("1", target="site")
        assert leasing.refuse("3", "site") == NoMatch(considered=4, at_capacity=1, in_cooldown=1, unhealthy=2)

    def test_a_refusal_follows_what_changed_since_the_last_one(self) -> None:
        leasing = Leasing()
        leasing.tell("ns/a", max_leases=1)
        leasing.grant("1", "site")
        assert leasing.refuse("2", "site").at_capacity == 1
        leasing.report("1")
        assert leasing.refuse("3", "site").in_cooldown == 1
        leasing.tell("ns/a", healthy=False, max_leases=1)
        assert leasing.refuse("4", "site").unhealthy == 1
        leasing.gone("ns/a")
        assert leasing.refuse("5", "site").considered == 0

    def test_nothing_is_granted_before_every_proxy_is_known(self) -> None:
        leasing = Leasing(primed=False)
        leasing.tell("ns/a")
        assert leasing.acquire("1") == Word.UNPRIMED
        assert leasing.report("1") == Word.UNKNOWN_LEASE
        assert leasing.release("1") == Word.DONE


class TestCooldowns:
    def test_a_cooldown_with_a_target_holds_for_that_target_only(self) -> None:
        leasing = Leasing()
        leasing.tell("ns/a")
        leasing.grant("1", "site")
        leasing.report("1", "rate_limited", "site")
        assert leasing.refuse("2", "site") == NoMatch(1, 0, 1, 0)
        assert isinstance(leasing.acquire("3", "other"), Granted)
        assert isinstance(leasing.acquire("4"), Granted)

    @pytest.mark.parametrize("target", ["", "site"])
    def test_a_cooldown_without_a_target_holds_for_every_lease(self, target: str) -> None:
        leasing = Leasing()
        leasing.tell("ns/a")
        leasing.grant("1")
        leasing.report("1")
        assert leasing.refuse("2", target) == NoMatch(1, 0, 1, 0)

    def test_a_report_names_its_target_or_means_the_lease_s(self) -> None:
        leasing = Leasing()
        leasing.tell("ns/a")
        leasing.grant("1", "site")
        leasing.report("1", target="other")
        assert leasing.refuse("2", "other").in_cooldown == 1
        assert isinstance(leasing.acquire("3", "site"), Granted)
        leasing.report("1")
        assert leasing.refuse("4", "site").in_cooldown == 1

    def test_a_success_cancels_nothing_and_time_alone_ends_it(self) -> None:
        leasing = Leasing()
        leasing.tell("ns/a")
        leasing.grant("1", "site")
        leasing.grant("2", "site")
        leasing.report("1")
        leasing.pass_time(1000)
        assert leasing.report("2", "ok") == Word.DONE
        leasing.pass_time(COOLDOWN - 1001)
        assert leasing.refuse("3", "site").in_cooldown == 1
        leasing.pass_time(1)
        assert leasing.grant("4", "site").proxy_id == "ns/a"

    def test_the_end_of_a_cooldown_without_a_target_needs_no_event(self) -> None:
        leasing = Leasing()
        leasing.tell("ns/a")
        leasing.grant("1")
        leasing.report("1")
        leasing.pass_time(COOLDOWN)
        assert leasing.grant("2").proxy_id == "ns/a"
        assert leasing.table.cooldowns.running(leasing.table.now) == 0

    def test_a_later_and_shorter_cooldown_does_not_cut_a_running_one(self) -> None:
        leasing = Leasing()
        leasing.tell("ns/a")
        leasing.grant("1", "site")
        leasing.report("1")
        leasing.table.apply(Report("1", "banned", "site", 1))
        leasing.pass_time(COOLDOWN - 1)
        assert leasing.refuse("2", "site").in_cooldown == 1

    def test_a_proxy_that_rests_is_passed_over_for_the_next(self) -> None:
        leasing = Leasing()
        leasing.tell("ns/a", latency_millis=1)
        leasing.tell("ns/b", latency_millis=2)
        leasing.grant("1", "site")
        leasing.report("1")
        leasing.release("1")
        assert leasing.grant("2", "site").proxy_id == "ns/b"
        assert leasing.grant("3", "site").proxy_id == "ns/b"


class TestEndedLeases:
    def test_expiry_frees_the_slot_at_its_millisecond(self) -> None:
        leasing = Leasing()
        leasing.tell("ns/a", max_leases=1)
        leasing.grant("1")
        assert leasing.active("ns/a", START + MINUTE - 1) == 1
        assert leasing.active("ns/a", START + MINUTE) == 0
        assert leasing.table.active_leases(START + MINUTE) == 0
        leasing.pass_time(MINUTE - 1)
        assert leasing.refuse("2").at_capacity == 1
        leasing.pass_time(1)
        assert leasing.grant("3").active_leases == 1

    def test_an_expired_lease_can_be_reported_on_for_one_cooldown(self) -> None:
        leasing = Leasing()
        leasing.tell("ns/a")
        leasing.grant("1", "site")
        leasing.pass_time(MINUTE + COOLDOWN - 1)
        assert leasing.report("1") == Word.DONE
        assert leasing.refuse("2", "site").in_cooldown == 1
        leasing.pass_time(1)
        assert leasing.report("1") == Word.UNKNOWN_LEASE

    def test_an_ended_lease_never_touches_another_holder_s_slot(self) -> None:
        leasing = Leasing()
        leasing.tell("ns/a", max_leases=1)
        leasing.grant("1")
        leasing.pass_time(MINUTE)
        leasing.grant("2")
        leasing.release("1")
        leasing.release("1")
        leasing.release("never")
        assert leasing.active("ns/a") == 1
        assert leasing.refuse("3").at_capacity == 1

    def test_a_released_lease_is_unknown_to_a_report(self) -> None:
        leasing = Leasing()
        leasing.tell("ns/a")
        leasing.grant("1")
        leasing.release("1")
        assert leasing.report("1") == Word.UNKNOWN_LEASE

    def test_releasing_and_expiring_at_a_high_rate_leaves_nothing_behind(self) -> None:
        leasing = Leasing()
        leasing.tell("ns/a", max_leases=10)
        for place in range(20_000):
            leasing.grant(str(place), ttl=60 * MINUTE)
            leasing.release(str(place))
        assert len(leasing.table.leases.running._heap) < 3000
        assert not leasing.table.leases.by_id


class TestRepeats:
    def test_an_acquire_sent_again_answers_with_the_lease_it_made(self) -> None:
        leasing = Leasing()
        leasing.tell("ns/a", max_leases=1)
        first = leasing.grant("1")
        leasing.pass_time(500)
        assert leasing.grant("1") == first
        assert leasing.active("ns/a") == 1

    def test_a_lease_given_back_before_it_was_granted_is_never_granted(self) -> None:
        leasing = Leasing()
        leasing.tell("ns/a", max_leases=1)
        assert leasing.table.apply(GiveBack("1")) == Word.DONE
        assert leasing.acquire("1") == Word.LEASE_ENDED
        assert leasing.grant("2").active_leases == 1

    def test_a_late_copy_of_an_acquire_brings_no_released_lease_back(self) -> None:
        leasing = Leasing()
        leasing.tell("ns/a", max_leases=1)
        leasing.grant("1")
        leasing.release("1")
        assert leasing.acquire("1") == Word.LEASE_ENDED

    def test_releasing_unknown_leases_pushes_no_give_back_out(self) -> None:
        leasing = Leasing()
        leasing.tell("ns/a")
        leasing.table.apply(GiveBack("mine"))
        for place in range(10_000):
            leasing.table.apply(Release(f"garbage-{place}"))
        assert leasing.acquire("mine") == Word.LEASE_ENDED


class TestTransitions:
    def test_an_older_transition_is_stale_and_names_the_newer_order(self) -> None:
        leasing = Leasing()
        leasing.tell("ns/a", order=(START, 7), healthy=False)
        assert leasing.tell("ns/a", order=(START, 6)) == Stale((START, 7))
        assert leasing.tell("ns/a", order=(START - 1, 99)) == Stale((START, 7))
        assert leasing.refuse("1").unhealthy == 1
        assert leasing.tell("ns/a", order=(START + 1, 1)) == Word.DONE
        assert leasing.grant("2").proxy_id == "ns/a"

    def test_the_same_transition_again_is_done_and_changes_nothing(self) -> None:
        leasing = Leasing()
        leasing.tell("ns/a", order=(START, 1))
        leasing.table.apply(Latencies([Latency("ns/a", "uid-ns/a", 99)]))
        assert leasing.tell("ns/a", order=(START, 1)) == Word.DONE
        assert leasing.grant("1").view.latency_millis == 99

    def test_a_proxy_that_is_gone_stays_gone_for_a_late_transition(self) -> None:
        leasing = Leasing()
        leasing.tell("ns/a", order=(START, 1))
        assert leasing.gone("ns/a", order=(START, 3)) == Word.DONE
        assert leasing.gone("ns/a", order=(START, 3)) == Word.DONE
        assert leasing.tell("ns/a", order=(START, 2)) == Stale((START, 3))
        assert leasing.refuse("1").considered == 0
        assert leasing.tell("ns/a", order=(START, 4)) == Word.DONE

    def test_an_older_goodbye_does_not_remove_a_proxy(self) -> None:
        leasing = Leasing()
        leasing.tell("ns/a", order=(START, 5))
        assert leasing.gone("ns/a", order=(START, 4)) == Stale((START, 5))
        assert leasing.gone("ns/a", uid="former", order=(START, 9)) == Word.DONE
        assert leasing.grant("1").proxy_id == "ns/a"

    def test_a_new_object_of_the_name_replaces_the_former_and_its_leases(self) -> None:
        leasing = Leasing()
        leasing.tell("ns/a", uid="old", order=(START, 1), max_leases=1)
        leasing.grant("1", "site")
        assert leasing.tell("ns/a", uid="new", order=(START + 9, 1), max_leases=1) == Word.DONE
        assert leasing.grant("2").active_leases == 1
        leasing.release("1")
        assert leasing.active("ns/a") == 1
        assert leasing.tell("ns/a", uid="old", order=(START, 2)) == Stale((START + 9, 1))

    @pytest.mark.parametrize("change", ["instance", "gone"])
    def test_a_replaced_instance_revokes_its_leases_which_stay_reportable(self, change: str) -> None:
        leasing = Leasing()
        leasing.tell("ns/a", max_leases=1)
        leasing.grant("1", "site")
        if change == "gone":
            leasing.gone("ns/a")
        else:
            leasing.tell("ns/a", max_leases=1, instance="two")
            assert leasing.grant("2").active_leases == 1
        assert leasing.acquire("1") == Word.LEASE_ENDED
        assert leasing.report("1") == Word.DONE
        assert leasing.table.cooldowns.of("site") == {"ns/a": START + COOLDOWN}

    def test_a_sick_or_draining_proxy_keeps_its_leases(self) -> None:
        leasing = Leasing()
        leasing.tell("ns/a")
        leasing.grant("1")
        leasing.tell("ns/a", healthy=False, leasable=False)
        assert leasing.active("ns/a") == 1
        leasing.tell("ns/a")
        assert leasing.grant("2").active_leases == 2

    def test_a_lowered_capacity_takes_no_lease_away_and_grants_none(self) -> None:
        leasing = Leasing()
        leasing.tell("ns/a", max_leases=3)
        for place in range(3):
            leasing.grant(str(place))
        leasing.tell("ns/a", max_leases=1)
        leasing.release("0")
        assert leasing.active("ns/a") == 2
        assert leasing.refuse("4").at_capacity == 1

    def test_a_deleting_proxy_is_neither_listed_nor_leased(self) -> None:
        leasing = Leasing()
        leasing.tell("ns/a")
        leasing.grant("1")
        leasing.tell("ns/a", phase="Deleting")
        assert list(leasing.table.views(START)) == []
        assert leasing.refuse("2").considered == 0
        assert leasing.table.active_leases(START) == 1


class TestBudget:
    def test_past_the_budget_leases_are_refused_and_a_release_makes_room(self) -> None:
        leasing = Leasing(limit=2000)
        leasing.tell("ns/a", max_leases=10_000)
        granted: list[str] = []
        while isinstance(leasing.acquire(str(len(granted))), Granted):
            granted.append(str(len(granted)))
        assert 10 < len(granted) < 100
        assert leasing.acquire("over") == Word.FULL
        assert leasing.table.budget.used <= 2000
        leasing.release(granted[0])
        leasing.release(granted[1])
        assert isinstance(leasing.acquire("after"), Granted)

    def test_ended_leases_make_room_for_new_ones_oldest_first(self) -> None:
        leasing = Leasing(limit=2000)
        leasing.tell("ns/a", max_leases=10_000)
        count = 0
        while isinstance(leasing.acquire(f"old-{count}", ttl=MINUTE + count), Granted):
            count += 1
        leasing.pass_time(2 * MINUTE)
        assert isinstance(leasing.acquire("new"), Granted)
        assert leasing.report("old-0", "ok") == Word.UNKNOWN_LEASE
        assert leasing.report(f"old-{count - 1}", "ok") == Word.DONE

    def test_many_targets_of_a_client_end_in_refusals(self) -> None:
        leasing = Leasing(limit=20_000)
        leasing.tell("ns/a", max_leases=10_000)
        answers = [leasing.acquire(str(place), target=f"{place:0>250}") for place in range(200)]
        assert answers[-1] == Word.FULL
        assert leasing.table.budget.used <= 20_000

    def test_a_proxy_past_the_budget_is_not_taken_on(self) -> None:
        leasing = Leasing(limit=600)
        answers = [leasing.tell(f"ns/{place}") for place in range(50)]
        assert answers[0] == Word.DONE
        assert answers[-1] == Word.FULL
        assert leasing.refuse("1", nothing="x").considered == 0
        assert len(leasing.table.proxies.by_id) == answers.count(Word.DONE)

    def test_a_known_proxy_that_outgrows_the_budget_is_not_handed_out(self) -> None:
        leasing = Leasing(limit=600)
        leasing.tell("ns/a")
        assert leasing.tell("ns/a", attributes={"note": "x" * 1000}) == Word.FULL
        assert leasing.refuse("1") == NoMatch(1, 0, 0, 1)
        assert leasing.tell("ns/a") == Word.DONE
        assert isinstance(leasing.acquire("2"), Granted)

    def test_what_is_taken_back_is_counted_back(self) -> None:
        leasing = Leasing()
        leasing.tell("ns/a", attributes={"geo": "eu"})
        leasing.grant("1", "site")
        leasing.report("1")
        leasing.grant("2", "other")
        leasing.gone("ns/a")
        leasing.pass_time(60 * MINUTE)
        table = leasing.table
        assert not table.leases.by_id
        table.proxies._forget_gone("uid-ns/a")
        assert table.budget.used == 0
