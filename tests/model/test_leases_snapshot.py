import base64
import random
import time
import uuid

import pytest

from model import lease_budget, lease_ids, lease_snapshot
from model.lease_answers import Granted, Word
from model.lease_batch import apply_batch
from model.lease_operations import Acquire, GiveBack, Operation, Primed, Report, Transition
from model.leases import LeaseTable
from tests.model.lease_fixtures import COOLDOWN, MINUTE, START, Leasing, view

PROXIES = 5000
LEASES = 25_000


def random_id(source: random.Random) -> str:
    return lease_ids.from_bytes(source.randbytes(16))


@pytest.fixture(scope="module")
def full_table() -> LeaseTable:
    """A fleet as large as the broker is meant for: each lease with a key and a session of its own."""
    source = random.Random(7)
    table = LeaseTable()
    table.advance(START)
    table.apply(Primed())
    for _ in range(PROXIES):
        proxy_id = f"crawl-production/egress-{source.randbytes(4).hex()}"
        uid, instance = str(uuid.UUID(bytes=source.randbytes(16))), str(uuid.UUID(bytes=source.randbytes(16)))
        facts = view(
            ip=".".join(str(source.randrange(256)) for _ in range(4)),
            attributes={"geo": source.choice(["eu", "us", "ap"]), "asn": str(source.randrange(50))},
            latency_millis=source.randrange(1000),
            max_leases=10,
            instance=instance,
        )
        order = (START - source.randrange(10**9), source.randrange(1000))
        assert table.apply(Transition(proxy_id, uid, order, facts)) is Word.DONE
    for place in range(LEASES):
        table.advance(START + place)
        target = f"site-{source.randrange(500)}.example.com"
        ttl = 1000 * source.randrange(60, 3600)
        body, session = source.randbytes(8).hex(), source.randbytes(8).hex()
        answer = table.apply(Acquire(random_id(source), {}, target, ttl, COOLDOWN, body, session))
        assert isinstance(answer, Granted)
    return table


def test_the_fleet_it_is_meant_for_fits_well(full_table: LeaseTable) -> None:
    assert len(full_table.leases.running) == LEASES
    assert full_table.budget.used <= lease_budget.SNAPSHOT_BYTES_LIMIT
    assert len(full_table.sessions) == LEASES
    assert len(lease_snapshot.dump(full_table)) < 1_400_000


def test_a_snapshot_is_smaller_than_what_is_counted(full_table: LeaseTable) -> None:
    assert len(lease_snapshot.dump(full_table)) <= full_table.budget.used


def test_dump_and_load_are_quick_enough_for_one_workflow_task(full_table: LeaseTable) -> None:
    start = time.process_time()
    lease_snapshot.load(lease_snapshot.dump(full_table))
    assert time.process_time() - start < 1.5


@pytest.mark.parametrize(
    "kind",
    [
        "cooldowns",
        "released",
        "gone",
        "targets",
        "ended",
        "keys",
        "sessions",
        "shared sessions",
        "idle sessions",
        "doubts",
        "renewed",
    ],
)
def test_no_kind_of_entry_takes_more_than_is_counted(kind: str) -> None:
    source = random.Random(3)
    leasing = Leasing()
    for place in range(3000 if kind in ("doubts", "idle sessions", "shared sessions") else 1):
        leasing.tell(f"ns/{place:04}", max_leases=10_000)
    empty = len(lease_snapshot.dump(leasing.table)) - leasing.table.budget.used
    for place in range(3000):
        add_one(leasing, source, kind, place)
    if kind == "ended":
        leasing.pass_time(MINUTE)
        assert len(leasing.table.leases.ended) == 3000
    if kind == "idle sessions":
        assert len(leasing.table.sessions.idle) == 3000
    if kind == "doubts":
        assert len(leasing.table.doubts.proxy_ids()) == 3000
    assert len(lease_snapshot.dump(leasing.table)) <= leasing.table.budget.used + max(empty, 0)


def add_one(leasing: Leasing, source: random.Random, kind: str, place: int) -> None:
    lease_id = random_id(source)
    ttl = source.randrange(1, MINUTE)
    if kind == "released":
        leasing.table.apply(GiveBack(lease_id))
    elif kind == "gone":
        leasing.gone("ns/b", uid=str(uuid.UUID(bytes=source.randbytes(16))))
    elif kind == "targets":
        leasing.acquire(lease_id, target="".join(chr(source.randrange(0x20, 0x800)) for _ in range(100)))
    elif kind == "keys":
        leasing.table.apply(Acquire(lease_id, {}, "", ttl, COOLDOWN, source.randbytes(8).hex()))
    elif "sessions" in kind:
        name = str(place % 1000 if kind == "shared sessions" else place)
        leasing.in_session(lease_id, name, source.choice(["", "site"]), ttl=ttl)
        if kind == "idle sessions":
            leasing.release(lease_id)
            leasing.pass_time(source.randrange(100))
    else:
        leasing.acquire(lease_id, ttl=ttl)
    if kind == "cooldowns":
        leasing.table.apply(Report(lease_id, "banned", f"{place:x}", source.randrange(10**6)))
    if kind == "doubts":
        leasing.report(lease_id, "transport_error")
    if kind == "renewed":
        leasing.renew(lease_id, ttl=source.randrange(1, 60 * MINUTE))


def test_the_budget_filled_to_the_brim_stays_below_the_limit() -> None:
    source = random.Random(5)
    leasing = Leasing(limit=200_000)
    for place in range(200):
        leasing.tell(f"ns/{place}", uid=str(uuid.UUID(bytes=source.randbytes(16))), max_leases=10_000)
    while leasing.acquire(random_id(source), source.randbytes(20).hex(), source.randrange(1, 10**7)) is not Word.FULL:
        pass
    assert len(lease_snapshot.dump(leasing.table)) < 200_000


def test_ids_of_any_shape_survive() -> None:
    leasing = Leasing()
    leasing.tell("ns/a", attributes={"name": "Zürich \ud800"})
    for lease_id in ("short", "P3X6HHQTPCM5UTGVGE3B5UPS3A", "P3X6HHQTPCM5UTGVGE3B5UPS3B", "☃"):
        leasing.grant(lease_id, "tärget")
    restored = lease_snapshot.load(lease_snapshot.dump(leasing.table))
    assert restored.leases.by_id == leasing.table.leases.by_id
    assert restored.proxies.by_id["ns/a"].view == leasing.table.proxies.by_id["ns/a"].view


def test_a_batch_of_a_thousand_on_the_full_fleet_takes_a_fraction_of_a_task(full_table: LeaseTable) -> None:
    source = random.Random(11)
    table = lease_snapshot.load(lease_snapshot.dump(full_table))
    selectors = [{}, {"geo": "eu"}, {"geo": "us", "asn": "7"}, {"geo": "nowhere"}]
    operations: list[Operation] = [
        Acquire(random_id(source), selectors[place % 4], f"site-{place % 9}.example.com", MINUTE, COOLDOWN)
        for place in range(1000)
    ]
    apply_batch(table, operations[:10], table.now)
    start = time.process_time()
    apply_batch(table, operations, table.now)
    assert time.process_time() - start < 0.5


def test_every_id_comes_back_from_its_bytes_and_no_other_text_is_one() -> None:
    source = random.Random(2)
    for raw in (bytes(16), b"\xff" * 16, *(source.randbytes(16) for _ in range(1000))):
        lease_id = lease_ids.from_bytes(raw)
        assert lease_ids.to_bytes(lease_id) == raw
        for last in "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567":
            other = lease_id[:-1] + last
            assert (lease_ids.to_bytes(other) is None) == (
                base64.b32encode(base64.b32decode(other + "======"))[:26] != other.encode()
            )
    for text in ("", "a" * 26, "A" * 25, "A" * 27, "A" * 25 + "\n", "1" * 26):
        assert lease_ids.to_bytes(text) is None
