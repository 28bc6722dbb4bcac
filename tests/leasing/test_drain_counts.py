"""Many drains share one query."""

import asyncio

from temporalio.client import Client

from leasing.drain_counts import DrainCounts
from model.lease_list import LeasesOn
from tests.leasing.brokers import acquire, broker_with, transition


async def test_all_who_wait_share_a_query_and_each_gets_its_own_number() -> None:
    asked: list[list[str]] = []

    async def fetch(proxy_ids: list[str]) -> dict[str, LeasesOn] | None:
        asked.append(sorted(proxy_ids))
        await asyncio.sleep(0)
        return {"ns/a": LeasesOn("uid-a", "one", 3), "ns/b": LeasesOn("uid-b", "one", 4)}

    counts = DrainCounts(fetch)
    questions = [("ns/a", "uid-a", "one"), ("ns/a", "uid-a", "two"), ("ns/b", "uid-x", "one"), ("ns/c", "uid-c", "one")]
    answers = await asyncio.gather(*(counts.ask(*question) for question in questions * 10))
    assert answers == [3, 0, 0, 0] * 10
    assert len(asked) <= 2
    assert await counts.ask("ns/b", "uid-b", "one") == 4
    assert asked[-1] == ["ns/b"]


async def test_a_broker_without_the_proxies_knows_no_number() -> None:
    async def fetch(_: list[str]) -> dict[str, LeasesOn] | None:
        return None

    assert await DrainCounts(fetch).ask("ns/a", "uid-a", "one") is None


async def test_the_broker_counts_what_runs_on_an_instance(temporal_client: Client) -> None:
    async with broker_with(temporal_client, 1) as broker:
        lease_id, _ = await acquire(broker)
        await acquire(broker)
        await broker.tell(transition("ns/0000", counter=2, leasable=False, drain_ends_at=2**42))
        assert await broker.leases_on("ns/0000", "uid-ns/0000", "one") == 2
        await broker.release(lease_id)
        assert await broker.leases_on("ns/0000", "uid-ns/0000", "one") == 1
        assert await broker.leases_on("ns/0000", "uid-ns/0000", "two") == 0
        await broker.tell(transition("ns/0000", counter=3, instance="two"))
        assert await broker.leases_on("ns/0000", "uid-ns/0000", "one") == 0
