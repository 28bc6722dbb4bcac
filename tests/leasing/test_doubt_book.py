"""Doubts travel from a report to the process that probes, and back, on a real broker."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from temporalio.client import Client

from leasing.client import BrokerClient
from leasing.doubt_book import DoubtBook
from model.lease_answers import Granted, NoMatch
from tests.leasing.brokers import COOLDOWN, acquire, broker_with, new_id
from tests.leasing.polling import wait_until

UID = "uid-ns/0000"


class Watch:
    def __init__(self) -> None:
        self.woken = 0

    def wake(self) -> None:
        self.woken += 1

    async def was_woken(self) -> bool:
        return self.woken > 0


@asynccontextmanager
async def running(book: DoubtBook) -> AsyncIterator[None]:
    task = asyncio.create_task(book.run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def now() -> float:
    return asyncio.get_running_loop().time()


async def is_handed_out(broker: BrokerClient) -> bool:
    return isinstance(await broker.acquire(new_id(), {}, "", 50, COOLDOWN), Granted)


async def test_a_transport_error_wakes_the_watch_once_and_a_passed_probe_lifts_it(temporal_client: Client) -> None:
    async with broker_with(temporal_client, 2, max_leases=1000) as broker:
        book, watch, other = DoubtBook(broker, ask_seconds=0.05), Watch(), Watch()
        book.watch(UID, watch.wake)
        book.watch("uid-ns/0001", other.wake)
        async with running(book):
            before = now()
            lease_id, granted = await acquire(broker)
            assert granted.proxy_id == "ns/0000"
            await broker.report(lease_id, "transport_error", "", COOLDOWN)
            _, second = await acquire(broker)
            assert second.proxy_id == "ns/0001"
            await wait_until(watch.was_woken)
            book.note("ns/0000", UID, started=before, works=True, next_in=1)
            await asyncio.sleep(0.3)
            assert await broker.doubted_proxies() == [("ns/0000", UID)], "that probe began before the report"
            book.note("ns/0000", UID, started=now(), works=True, next_in=1)

            async def trusted() -> bool:
                return not await broker.doubted_proxies()

            await wait_until(trusted)
        assert (watch.woken, other.woken) == (1, 0)


async def test_a_failed_probe_holds_the_proxy_back_until_one_passes(temporal_client: Client) -> None:
    async with broker_with(temporal_client, 1, max_leases=1000) as broker:
        book, watch = DoubtBook(broker, ask_seconds=0.05), Watch()
        book.watch(UID, watch.wake)
        async with running(book):
            lease_id, _ = await acquire(broker)
            await broker.report(lease_id, "transport_error", "", COOLDOWN)
            await wait_until(watch.was_woken)
            book.note("ns/0000", UID, started=now(), works=False, next_in=1)
            await asyncio.sleep(0.3)
            assert isinstance(await broker.acquire(new_id(), {}, "", 50, COOLDOWN), NoMatch)
            book.note("ns/0000", UID, started=now(), works=True, next_in=1)
            await wait_until(lambda: is_handed_out(broker))


async def test_a_watch_that_another_replaced_does_not_end_it(temporal_client: Client) -> None:
    async with broker_with(temporal_client, 1) as broker:
        book, former, watch = DoubtBook(broker, ask_seconds=0.05), Watch(), Watch()
        book.watch(UID, former.wake)
        book.watch(UID, watch.wake)
        book.leave(UID, former.wake)
        async with running(book):
            lease_id, _ = await acquire(broker)
            await broker.report(lease_id, "transport_error", "", COOLDOWN)
            await wait_until(watch.was_woken)
        assert former.woken == 0


async def test_it_goes_on_after_the_broker_was_away(temporal_client: Client) -> None:
    async with broker_with(temporal_client, 1) as broker:
        lease_id, _ = await acquire(broker)
        await broker.report(lease_id, "transport_error", "", COOLDOWN)
    book, watch = DoubtBook(broker, ask_seconds=0.05), Watch()
    book.watch(UID, watch.wake)
    async with running(book):
        await asyncio.sleep(3)
        assert watch.woken == 0
        async with broker_with(temporal_client, 0):
            await wait_until(watch.was_woken)
