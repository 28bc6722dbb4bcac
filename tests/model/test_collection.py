"""Which instances count as orphans, and when they are deleted."""

import dataclasses
import json
import random
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from model.collection import (
    LiveProxy,
    Rules,
    candidate_key,
    candidates_each,
    find_orphans,
    queued_anew,
    within_cap,
)
from model.collection_messages import MOST_CANDIDATES, Findings, Orphan, ProviderSweep, SweepReport
from model.instance import Instance, InstanceState

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)
AT = int(NOW.timestamp())
INTERVAL = timedelta(minutes=10)
OLD = NOW - timedelta(hours=1)
RULES = Rules(
    installation="ours",
    at=NOW,
    minimum_age=timedelta(minutes=10),
    interval=INTERVAL,
    previous_at=NOW - INTERVAL,
)


def instance(uid: str = "u", **changes: Any) -> Instance:
    base = Instance(
        provider_id=f"box/{uid}",
        incarnation="i1",
        name=f"proxy-{uid}",
        state=InstanceState.RUNNING,
        uid=uid,
        installation="ours",
        created_at=OLD,
    )
    return dataclasses.replace(base, **changes)


def owner(uid: str = "u", **changes: Any) -> LiveProxy:
    base = LiveProxy(namespace="ns", name=uid, provider="box", provider_id=f"box/{uid}", incarnation="i1")
    return dataclasses.replace(base, **changes)


def judge(
    *instances: Instance,
    live: dict[str, LiveProxy] | None = None,
    rules: Rules = RULES,
    seen_at: int | None = AT - 600,
    most_doomed: int = 10,
) -> Findings:
    seen = {} if seen_at is None else {candidate_key("box", each): seen_at for each in instances}
    return find_orphans("box", instances, live or {}, rules, seen, most_doomed, MOST_CANDIDATES)


def rules(**changes: Any) -> Rules:
    return dataclasses.replace(RULES, **changes)


def test_an_old_unowned_instance_seen_twice_is_deleted() -> None:
    found = judge(instance())
    assert found.doomed == [Orphan(provider_id="box/u", incarnation="i1", uid="u")]
    assert found.spared == {}


@pytest.mark.parametrize(
    ("there", "live", "reason"),
    [
        (instance(installation="theirs"), {}, "foreign"),
        (instance(installation="theirs"), {"u": owner()}, "foreign"),
        (instance(uid=""), {}, "no-uid"),
        (instance(installation=""), {}, "unmarked"),
        (instance(installation=""), {"u": owner()}, "live"),
        (instance(), {"u": owner()}, "live"),
        (instance(), {"u": owner(provider_id="", incarnation="")}, "live"),
        # A record of the reference operator lacks the incarnation.
        (instance(), {"u": owner(incarnation="")}, "live"),
        # The record is old, and this is the only instance there is.
        (instance(), {"u": owner(incarnation="i0")}, "live"),
        (instance(), {"u": owner(provider_id="box/elsewhere")}, "live"),
        (instance(), {"u": owner(provider="another")}, "live"),
        (instance(created_at=NOW - timedelta(minutes=14)), {}, "young"),
        (instance(created_at=NOW + timedelta(minutes=5)), {}, "young"),
    ],
)
def test_an_instance_is_spared(there: Instance, live: dict[str, LiveProxy], reason: str) -> None:
    found = judge(there, live=live)
    assert (found.doomed, found.candidates, found.spared) == ([], {}, {reason: 1})


def test_unmarked_instances_are_collected_when_asked_for() -> None:
    assert len(judge(instance(installation=""), rules=rules(collect_unmarked=True)).doomed) == 1


@pytest.mark.parametrize("skew", [timedelta(minutes=minutes) for minutes in (-5, 0, 5)])
def test_clocks_five_minutes_apart_never_doom_a_young_instance(skew: timedelta) -> None:
    young_by_the_backend = NOW + skew - timedelta(minutes=9, seconds=59)
    assert judge(instance(created_at=young_by_the_backend)).doomed == []
    old_by_any_clock = NOW + skew - timedelta(minutes=20)
    assert len(judge(instance(created_at=old_by_any_clock)).doomed) == 1


def test_a_short_minimum_age_has_a_short_margin() -> None:
    short = rules(minimum_age=timedelta(seconds=2))
    assert judge(instance(created_at=NOW - timedelta(seconds=3)), rules=short).doomed == []
    assert len(judge(instance(created_at=NOW - timedelta(seconds=4)), rules=short).doomed) == 1


def test_what_is_seen_once_waits_for_the_next_sweep() -> None:
    found = judge(instance(), seen_at=None)
    assert (found.doomed, found.spared) == ([], {"seen-once": 1})
    assert found.candidates == {candidate_key("box", instance()): AT}


@pytest.mark.parametrize(
    ("previous_at", "seen_at"),
    [
        (None, AT - 600),
        # Older than two intervals: a sweep in between failed, or the schedule stood still.
        (NOW - 2.5 * INTERVAL - timedelta(seconds=1), AT - 1501),
        # Two sweeps one right after the other, by hand.
        (NOW - timedelta(seconds=2), AT - 2),
    ],
)
def test_a_sweep_too_long_or_too_short_ago_confirms_nothing(previous_at: datetime | None, seen_at: int) -> None:
    found = judge(instance(), rules=rules(previous_at=previous_at), seen_at=seen_at)
    assert (found.doomed, found.spared) == ([], {"seen-once": 1})


def test_a_sweep_two_intervals_ago_still_counts() -> None:
    assert len(judge(instance(), rules=rules(previous_at=NOW - 2 * INTERVAL), seen_at=AT - 1200).doomed) == 1


def test_sweeps_by_hand_in_between_do_not_put_the_deletion_off() -> None:
    first = judge(instance(), seen_at=None, rules=rules(previous_at=None))
    second = find_orphans(
        "box",
        [instance()],
        {},
        rules(at=NOW + timedelta(seconds=30), previous_at=NOW),
        first.candidates,
        10,
        MOST_CANDIDATES,
    )
    assert (second.doomed, second.candidates) == ([], first.candidates)
    third = find_orphans(
        "box",
        [instance()],
        {},
        rules(at=NOW + timedelta(minutes=5), previous_at=NOW + timedelta(seconds=30)),
        second.candidates,
        10,
        MOST_CANDIDATES,
    )
    assert len(third.doomed) == 1


def test_an_instance_that_replaced_a_candidate_is_a_candidate_of_its_own() -> None:
    seen = {candidate_key("box", instance()): AT - 600}
    found = find_orphans("box", [instance(incarnation="i2")], {}, RULES, seen, 10, MOST_CANDIDATES)
    assert (found.doomed, found.spared) == ([], {"seen-once": 1})


@pytest.mark.parametrize("second", [instance(provider_id="box/u-in-another-zone"), instance(incarnation="i2")])
def test_the_second_instance_of_a_live_proxy_is_an_orphan(second: Instance) -> None:
    found = judge(instance(), second, live={"u": owner()})
    assert [(orphan.provider_id, orphan.incarnation) for orphan in found.doomed] == [
        (second.provider_id, second.incarnation)
    ]
    assert found.spared == {"live": 1}


def test_an_empty_list_of_proxies_dooms_nothing_the_first_time_and_few_the_second() -> None:
    fleet = [instance(f"u{number}") for number in range(200)]
    assert judge(*fleet, seen_at=None).doomed == []
    found = judge(*fleet, most_doomed=10)
    assert (len(found.doomed), found.spared) == (10, {"over-the-cap": 190})


def test_known_candidates_are_not_pushed_out_by_a_flood_of_new_ones() -> None:
    known = instance("known", created_at=NOW - timedelta(minutes=30))
    flood = [instance(f"u{number}") for number in range(500)]
    seen = {candidate_key("box", known): AT - 600}
    found = find_orphans("box", [*flood, known], {}, RULES, seen, 10, 5)
    assert [orphan.uid for orphan in found.doomed] == ["known"]
    assert len(found.candidates) == 5
    assert candidate_key("box", known) in found.candidates


def test_the_cap_is_shared_in_turns() -> None:
    many = [Orphan(provider_id=str(number), incarnation="i", uid=str(number)) for number in range(20)]
    taken = within_cap({"a": many, "b": many[:2], "c": []}, 6, 0)
    assert [provider for provider, _ in taken] == ["a", "b", "a", "b", "a", "a"]
    assert within_cap({}, 6, 5) == []


def test_a_sweep_over_twenty_thousand_instances_has_a_small_result() -> None:
    order = random.Random(1)
    fleet = [
        instance(f"{number:032x}", provider_id=f"projects/p/zones/z/instances/{number}") for number in range(20_000)
    ]
    order.shuffle(fleet)
    live = {each.uid: owner(each.uid, provider_id=each.provider_id) for each in fleet[:10_000]}
    first = find_orphans("box", fleet, live, RULES, {}, 10, MOST_CANDIDATES)
    assert first.spared == {"live": 10_000, "seen-once": 10_000}
    again = find_orphans("box", fleet, live, RULES, dict.fromkeys(first.candidates, AT - 600), 10, MOST_CANDIDATES)
    assert len(again.doomed) == 10
    assert again.candidates.keys() == first.candidates.keys()
    sweep = ProviderSweep(instances=again.instances, spared=again.spared, candidates=again.candidates)
    report = SweepReport(at=AT, providers={"box": sweep})
    assert len(json.dumps(dataclasses.asdict(report))) < 10_000
    assert len(json.dumps(dataclasses.asdict(again))) < 12_000


def test_a_sweep_that_ran_over_its_interval_still_confirms() -> None:
    """The run that is due while it runs is left out, so the next one begins two intervals and a moment later."""
    late = NOW - 2 * INTERVAL - timedelta(milliseconds=400)
    assert len(judge(instance(), rules=rules(previous_at=late), seen_at=AT - 1200).doomed) == 1


def test_a_result_from_the_future_confirms_nothing() -> None:
    """As after a clock was set back, or a result that another server wrote."""
    found = judge(instance(), rules=rules(previous_at=NOW + timedelta(hours=3)), seen_at=AT - 600)
    assert (found.doomed, found.candidates) == ([], {candidate_key("box", instance()): AT})


def test_an_instance_without_an_incarnation_is_never_deleted() -> None:
    """Nothing tells it from what takes its place, and a delete without one spares nobody."""
    nameless = instance(incarnation="")
    assert judge(nameless).spared == {"no-incarnation": 1}
    assert judge(instance(), nameless, live={"u": owner()}).doomed == []


def test_an_instance_whose_uid_changed_is_a_candidate_of_its_own() -> None:
    seen = {candidate_key("box", instance("u", provider_id="box/one")): AT - 600}
    found = find_orphans("box", [instance("v", provider_id="box/one")], {}, RULES, seen, 10, MOST_CANDIDATES)
    assert (found.doomed, found.spared) == ([], {"seen-once": 1})


def test_orphans_that_cannot_be_deleted_hold_up_no_other() -> None:
    stuck = [instance(f"stuck{number}", created_at=OLD - timedelta(days=1)) for number in range(3)]
    others = [instance(f"other{number}") for number in range(4)]
    left = {each.uid: each for each in (*stuck, *others)}
    candidates: dict[str, int] = {}
    for sweep in range(8):
        at = NOW + sweep * INTERVAL
        now = rules(at=at, previous_at=at - INTERVAL)
        found = find_orphans("box", list(left.values()), {}, now, candidates, 2, MOST_CANDIDATES)
        failed = [orphan for orphan in found.doomed if orphan.uid.startswith("stuck")]
        for orphan in found.doomed:
            if orphan not in failed:
                del left[orphan.uid]
        candidates = queued_anew(found.candidates, "box", failed, at.timestamp())
    assert sorted(left) == ["stuck0", "stuck1", "stuck2"]


def test_a_provider_that_always_has_orphans_holds_up_no_other() -> None:
    doomed = {name: [Orphan(provider_id=name, incarnation="i", uid=name)] for name in ("a", "b", "c")}
    first = [within_cap(doomed, 1, turn)[0][0] for turn in range(4)]
    assert first == ["a", "b", "c", "a"]


def test_every_provider_of_many_has_a_candidate() -> None:
    assert candidates_each(1) == MOST_CANDIDATES
    assert candidates_each(0) == MOST_CANDIDATES
    assert candidates_each(1000) == 1
