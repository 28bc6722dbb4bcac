"""The reckoning of `make torture`: what makes it fail must be seen."""

import pytest

from bench.torture.ledger import HeldLease, Ledger, longest_gap
from bench.torture.totals import FAILURES, Totals


def held(lease_id: str, *, expires: float = 100.0, limit: int = 2, proxy_id: str = "ns/a") -> HeldLease:
    return HeldLease(lease_id, proxy_id, expires, limit, steady=True)


def test_leases_up_to_the_limit_are_fine_and_one_more_is_not() -> None:
    ledger = Ledger()
    assert ledger.acknowledge(held("one"), 0.0) == []
    assert ledger.acknowledge(held("two"), 0.0) == []
    assert ledger.acknowledge(held("other", proxy_id="ns/b"), 0.0) == []
    assert [lease.lease_id for lease in ledger.acknowledge(held("three"), 0.0)] == ["one", "two", "three"]
    assert ledger.most == {"ns/a": 3, "ns/b": 1}


def test_a_lease_that_was_let_go_or_has_expired_holds_no_slot() -> None:
    ledger = Ledger()
    ledger.acknowledge(held("one", expires=5.0), 0.0)
    ledger.acknowledge(held("two"), 0.0)
    assert ledger.acknowledge(held("three"), 5.0) == []
    ledger.let_go("two")
    assert ledger.acknowledge(held("four"), 5.0) == []
    assert ledger.most == {"ns/a": 2}


def test_a_lease_that_expires_a_moment_later_still_holds_its_slot() -> None:
    ledger = Ledger()
    ledger.acknowledge(held("one", expires=5.0), 0.0)
    ledger.acknowledge(held("two"), 0.0)
    assert len(ledger.acknowledge(held("three"), 4.9)) == 3


def test_the_same_lease_granted_twice_is_noticed() -> None:
    ledger = Ledger()
    ledger.acknowledge(held("one"), 0.0)
    ledger.acknowledge(held("one"), 0.0)
    assert ledger.doubled == ["one"]


def test_only_leases_with_time_left_are_asked_for() -> None:
    ledger = Ledger()
    short, long = held("short", expires=3.0), held("long")
    for lease in (short, long):
        ledger.acknowledge(lease, 0.0)
    assert ledger.held(0.0, spare=5.0) == [long]
    assert ledger.holds(short, 2.9)
    assert not ledger.holds(short, 3.0)
    ledger.let_go("long")
    assert not ledger.holds(long, 0.0)


def test_the_gap_counts_the_time_before_the_first_and_after_the_last_grant() -> None:
    grants = [0.5, 2.0, 2.5, 4.0]
    assert longest_gap(grants, 1.0, 4.5) == 1.5
    assert longest_gap(grants, 1.9, 9.0) == 5.0
    assert longest_gap([], 1.0, 3.0) == 2.0


@pytest.mark.parametrize("name", FAILURES)
def test_each_kind_of_failure_fails_the_run(name: str) -> None:
    totals = Totals()
    totals.answers[name] = 1
    assert totals.failed
    assert f"1 {name}" in totals.line(60.0)


def test_a_run_without_a_failure_passes() -> None:
    totals = Totals()
    totals.answers["granted"] = 7
    assert not totals.failed
    assert totals.line(60.0).startswith("torture passed: 0 overcommits, 0 lost")


def test_a_fleet_that_is_not_as_it_should_be_fails_the_run() -> None:
    totals = Totals(problems=["px has 2 processes"])
    assert totals.failed
    assert "1 problems of the fleet" in totals.line(60.0)


def test_the_longest_gap_of_each_kind_is_kept() -> None:
    totals = Totals()
    for seconds in (1.0, 2.5, 0.5):
        totals.note_gap("an API", seconds)
    assert totals.gap_lines() == ["kill -9 of an API: 3 times, longest gap without a grant 2.50 s"]
