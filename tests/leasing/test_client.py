"""The broker's client against a real Temporal server."""

import asyncio
import time
from collections.abc import Awaitable, Callable

import pytest
from temporalio.client import Client

from leasing.broker_workflow import claim_installation
from leasing.client import BrokerClient, BrokerFullError, ProxyList
from model import names
from model.errors import ConfigurationError, UnavailableError
from model.lease_answers import Granted, NoMatch
from model.lease_operations import Gone, Latency
from tests.conftest import TemporalFactory
from tests.leasing.brokers import COOLDOWN, INSTALLATION, acquire, broker_with, new_id, prime, transition
from tests.leasing.polling import wait_until
from tests.workflows.lease_broker_worker import running_broker


async def active(broker: BrokerClient) -> int:
    return (await broker.summary()).active_leases


def is_active(broker: BrokerClient, count: int) -> Callable[[], Awaitable[bool]]:
    async def check() -> bool:
        return await active(broker) == count

    return check


async def test_a_lease_is_granted_reported_on_and_released(temporal_client: Client) -> None:
    async with broker_with(temporal_client, 1, max_leases=1) as broker:
        lease_id, granted = await acquire(broker, "site")
        assert (granted.proxy_id, granted.active_leases) == ("ns/0000", 1)
        assert isinstance(await broker.acquire(new_id(), {}, "", 1000, COOLDOWN), NoMatch)
        assert await broker.report(lease_id, "banned", "", COOLDOWN)
        await broker.release(lease_id)
        await broker.release(lease_id)
        await acquire(broker, "another site")


async def test_transitions_are_answered_with_the_newer_order(temporal_client: Client) -> None:
    async with broker_with(temporal_client, 1) as broker:
        assert await broker.tell(transition("ns/0000", counter=5)) is None
        assert await broker.tell(transition("ns/0000", counter=4)) == (1000, 5)
        await broker.tell_latencies([Latency("ns/0000", "uid-ns/0000", 77)])
        assert (await broker.list_proxies()).proxies[0].view.latency_millis == 77
        assert await broker.tell(Gone("ns/0000", "uid-ns/0000", (1000, 6))) is None
        assert (await broker.list_proxies()).proxies == []


async def test_what_comes_at_once_travels_in_few_updates(temporal_client: Client) -> None:
    async with broker_with(temporal_client, 5, max_leases=10_000) as broker:
        handle = temporal_client.get_workflow_handle(names.LEASE_BROKER_ID)
        before = (await handle.describe()).history_length
        await asyncio.gather(*(acquire(broker) for _ in range(2500)))
        updates = ((await handle.describe()).history_length - before) / 5
        assert updates <= 10
        assert await active(broker) == 2500


async def test_large_operations_are_spread_over_batches(temporal_client: Client) -> None:
    async with broker_with(temporal_client, 1, max_leases=10_000) as broker:
        selector = {f"key-{place}{'x' * 200}": "" for place in range(60)}
        answers = await asyncio.gather(*(broker.acquire(new_id(), selector, "", 1000, COOLDOWN) for _ in range(100)))
        assert all(isinstance(answer, Granted) for answer in answers)


async def test_without_a_worker_a_request_ends_within_its_time_and_leaks_no_slot(temporal_client: Client) -> None:
    async with broker_with(temporal_client, 1, max_leases=3):
        pass
    broker = BrokerClient(temporal_client, INSTALLATION)
    start = time.monotonic()
    attempts = (broker.acquire(new_id(), {}, "", 60_000, COOLDOWN) for _ in range(3))
    results = await asyncio.gather(*attempts, broker.release(new_id()), return_exceptions=True)
    assert all(isinstance(result, UnavailableError) for result in results)
    with pytest.raises(UnavailableError):
        await broker.list_proxies()
    assert time.monotonic() - start < 6.5
    async with running_broker(temporal_client):
        await wait_until(is_active(broker, 0))
        await wait_until(lambda: all_granted(broker, 3))
        await broker.close()


async def all_granted(broker: BrokerClient, count: int) -> bool:
    answers = await asyncio.gather(*(broker.acquire(new_id(), {}, "", 500, COOLDOWN) for _ in range(count)))
    return all(isinstance(answer, Granted) for answer in answers)


async def test_one_who_leaves_takes_nobody_along_and_gives_its_slot_back(temporal_client: Client) -> None:
    async with broker_with(temporal_client, 1, max_leases=10) as broker:
        leaving = asyncio.create_task(broker.acquire(new_id(), {}, "", 60_000, COOLDOWN))
        staying = [asyncio.create_task(acquire(broker)) for _ in range(3)]
        # Two steps of the loop: the batch is on its way.
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        leaving.cancel()
        assert len(await asyncio.gather(*staying)) == 3
        with pytest.raises(asyncio.CancelledError):
            await leaving
        await wait_until(is_active(broker, 3))


async def test_a_broker_that_was_terminated_is_started_again_by_whoever_needs_it(temporal_client: Client) -> None:
    async with broker_with(temporal_client, 1) as broker:
        await temporal_client.get_workflow_handle(names.LEASE_BROKER_ID).terminate()
        with pytest.raises(UnavailableError, match="does not know the proxies yet"):
            await broker.acquire(new_id(), {}, "", 1000, COOLDOWN)
        await prime(broker, 1)
        await acquire(broker)
        await temporal_client.get_workflow_handle(names.LEASE_BROKER_ID).terminate()
        assert (await broker.list_proxies()).proxies == []


async def test_lists_asked_for_at_the_same_time_share_two_queries(temporal_client: Client) -> None:
    async with broker_with(temporal_client, 3) as broker:
        lists = await asyncio.gather(*(broker.list_proxies() for _ in range(50)))
        assert len({id(listed) for listed in lists}) == 2
        await acquire(broker)
        assert sum(proxy.active_leases for proxy in (await broker.list_proxies()).proxies) == 1


async def test_the_last_list_stands_in_for_thirty_seconds(
    temporal_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with broker_with(temporal_client, 2) as broker:
        fresh = await broker.list_proxies()
    listed = await broker.list_proxies()
    assert listed is fresh
    assert listed.age > 1
    monkeypatch.setattr(ProxyList, "age", 31.0)
    with pytest.raises(UnavailableError):
        await broker.list_proxies()


async def test_a_temporal_that_is_away_and_comes_back(own_temporal: TemporalFactory) -> None:
    server = await own_temporal()
    client = await Client.connect(server.address)
    broker = BrokerClient(client, INSTALLATION)
    async with running_broker(client):
        await prime(broker, 1, max_leases=10)
        lease_id, _ = await acquire(broker)
        await server.stop()
        start = time.monotonic()
        with pytest.raises(UnavailableError):
            await broker.acquire(new_id(), {}, "", 600_000, COOLDOWN)
        assert time.monotonic() - start < 3.5
        await server.start()
        await wait_until(lambda: reported(broker, lease_id))
        await wait_until(is_active(broker, 1))
        await broker.close()


async def reported(broker: BrokerClient, lease_id: str) -> bool:
    try:
        return await broker.report(lease_id, "ok", "", COOLDOWN)
    except UnavailableError:
        return False


async def test_a_namespace_belongs_to_the_first_installation(temporal_client: Client) -> None:
    await claim_installation(temporal_client, "first")
    await claim_installation(temporal_client, "first")
    with pytest.raises(ConfigurationError) as caught:
        await claim_installation(temporal_client, "second")
    message = str(caught.value)
    assert "'first'" in message
    assert "'second'" in message
    assert "\n" not in message


async def test_a_full_broker_says_so(temporal_client: Client) -> None:
    async with broker_with(temporal_client, 0) as broker:
        attributes = {f"{place:02}{'x' * 60}": "y" * 250 for place in range(64)}
        changes = [
            transition(f"ns/{place:04}", attributes={**attributes, "number": str(place)}) for place in range(200)
        ]
        results = await asyncio.gather(*(broker.tell(change, 20) for change in changes), return_exceptions=True)
        assert results[0] is None
        assert isinstance(results[-1], BrokerFullError)
        listed = await broker.list_proxies()
        assert len(listed.proxies) == results.count(None)


async def test_closing_waits_for_what_is_on_its_way(temporal_client: Client) -> None:
    async with broker_with(temporal_client, 1) as broker:
        releasing = asyncio.create_task(broker.release(new_id()))
        await asyncio.sleep(0)
        await broker.close()
        assert releasing.done()
