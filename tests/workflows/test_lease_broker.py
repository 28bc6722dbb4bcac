"""The broker's workflow on a real Temporal server."""

import asyncio
import functools
import itertools
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from temporalio import activity
from temporalio.client import Client, WorkflowHandle, WorkflowUpdateFailedError
from temporalio.exceptions import ApplicationError

from leasing import priming
from leasing.client import BrokerClient
from model import lease_broker, names
from model.errors import UnavailableError
from model.lease_answers import Granted, NoMatch, decode_answers
from model.lease_broker import BrokerSettings
from model.lease_operations import Acquire
from model.lease_wire import encode_operation, join_operations
from model.proxy import Condition, Proxy, ProxySpec, ProxyStatus
from tests.leasing.brokers import COOLDOWN, INSTALLATION, acquire, broker_with, new_id, prime, transition
from tests.leasing.polling import wait_until
from tests.workflows.lease_broker_worker import running_broker

REPOSITORY = Path(__file__).resolve().parents[2]


def broker_handle(client: Client) -> WorkflowHandle[object, object]:
    return client.get_workflow_handle(names.LEASE_BROKER_ID)


async def primed(broker: BrokerClient) -> bool:
    return (await broker.summary()).primed


async def run_id(client: Client) -> str:
    description = await broker_handle(client).describe()
    assert description.run_id
    return description.run_id


async def test_updates_across_three_changes_of_runs_are_answered_and_counted_once(temporal_client: Client) -> None:
    handle = broker_handle(temporal_client)
    granted: dict[str, Granted] = {}
    runs: set[str] = set()

    async def one_update(number: int) -> None:
        lease_id = new_id()
        batch = join_operations([encode_operation(Acquire(lease_id, {}, "", 600_000, COOLDOWN))])
        for _ in range(240):
            sending = asyncio.ensure_future(
                handle.execute_update(lease_broker.UPDATE_BATCH, batch, id=f"update-{number}", result_type=str)
            )
            done, _ = await asyncio.wait([sending], timeout=0.25)
            if done:
                (answer,) = decode_answers(sending.result())
                assert isinstance(answer, Granted)
                granted[lease_id] = answer
                return
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)
        raise AssertionError(f"update {number} was never answered")

    async with broker_with(temporal_client, 10, run_length=50, max_leases=100) as broker:
        updates = []
        number = 0
        end = time.monotonic() + 60
        while len(runs) < 4 and time.monotonic() < end:
            updates.append(asyncio.create_task(one_update(number)))
            number += 1
            await asyncio.sleep(0.02)
            if number % 10 == 0:
                runs.add(await run_id(temporal_client))
        await asyncio.gather(*updates)
        listed = await broker.list_proxies()
    assert len(runs) >= 4
    assert len(granted) == number
    assert sum(proxy.active_leases for proxy in listed.proxies) == number
    assert Counter(answer.proxy_id for answer in granted.values()) == {
        proxy.id: proxy.active_leases for proxy in listed.proxies
    }


async def test_leases_and_cooldowns_survive_changes_of_runs(temporal_client: Client) -> None:
    async with broker_with(temporal_client, 1, run_length=5, max_leases=100) as broker:
        first = await run_id(temporal_client)
        lease_id, _ = await acquire(broker, "site")
        await broker.report(lease_id, "banned", "", COOLDOWN)
        for _ in range(20):
            await acquire(broker, "other")
        assert await run_id(temporal_client) != first
        assert isinstance(await broker.acquire(new_id(), {}, "site", 1000, COOLDOWN), NoMatch)
        assert await broker.report(lease_id, "ok", "", COOLDOWN)
        await broker.release(lease_id)
        assert not await broker.report(lease_id, "ok", "", COOLDOWN)
        assert (await broker.list_proxies()).proxies[0].active_leases == 20


async def test_a_malformed_batch_is_refused_and_the_broker_goes_on(temporal_client: Client) -> None:
    async with broker_with(temporal_client, 1) as broker:
        for batch in ("nonsense", '[["a"]]', "[" * 50_000):
            with pytest.raises(WorkflowUpdateFailedError) as caught:
                await broker_handle(temporal_client).execute_update(lease_broker.UPDATE_BATCH, batch, result_type=str)
            assert isinstance(caught.value.cause, ApplicationError)
            assert caught.value.cause.type == lease_broker.MALFORMED_BATCH
        await acquire(broker)


async def test_counts_and_expiry_are_true_after_an_hour_without_traffic(temporal_client: Client) -> None:
    async with broker_with(temporal_client, 1) as broker:
        lease_id, _ = await acquire(broker, "site", ttl=30_000)
        await broker.report(lease_id, "banned", "", COOLDOWN)
        summary = await broker.summary()
        assert (summary.primed, summary.active_leases, summary.cooldowns, summary.phases) == (True, 1, 1, {"Ready": 1})
        later = time.time_ns() // 1_000_000 + 3_600_000
        text = await broker_handle(temporal_client).query(lease_broker.QUERY_SUMMARY, later, result_type=str)
        assert text == '[true, 0, 0, {"Ready": 1}]'


def external_proxy(name: str, *, phase: str, reason: str = "External") -> Proxy:
    healthy = "True" if phase == "Ready" else "False"
    return Proxy(
        namespace="crawl",
        name=name,
        uid=f"uid-{name}",
        generation=1,
        spec=ProxySpec(mode="External", endpoint_host="192.0.2.1", max_leases=3),
        status=ProxyStatus(
            phase=phase,
            conditions=(
                Condition(type="Provisioned", status="True", reason=reason),
                Condition(type="Healthy", status=healthy, reason="ProbeSucceeded"),
            ),
        ),
    )


async def test_a_broker_that_knows_nothing_is_primed_by_the_activity(temporal_client: Client) -> None:
    """Also after a human has terminated it: nothing is granted until every Proxy is known again."""
    broker = BrokerClient(temporal_client, INSTALLATION)
    may_prime = asyncio.Event()
    told: list[int] = []

    @activity.defn(name=lease_broker.PRIME_ACTIVITY)
    async def prime_broker() -> None:
        while not may_prime.is_set():
            activity.heartbeat()
            await asyncio.sleep(0.05)
        proxies = [external_proxy("good", phase="Ready"), external_proxy("sick", phase="Unhealthy")]
        assert await priming.prime(broker, proxies, told.append) == 0

    async with running_broker(temporal_client, activities=[prime_broker]):
        for _ in range(2):
            may_prime.clear()
            with pytest.raises(UnavailableError, match="does not know the proxies yet"):
                await broker.acquire(new_id(), {}, "", 1000, COOLDOWN)
            assert not await broker.report(new_id(), "banned", "", COOLDOWN)
            may_prime.set()
            await wait_until(lambda: primed(broker))
            _, granted = await acquire(broker)
            assert (granted.proxy_id, granted.view.ip, granted.active_leases) == ("crawl/good", "192.0.2.1", 1)
            assert told[-1] == 2
            await broker_handle(temporal_client).terminate("by a human")
        await broker.close()


async def test_what_a_workflow_told_is_newer_than_priming(temporal_client: Client) -> None:
    broker = BrokerClient(temporal_client, INSTALLATION)
    async with running_broker(temporal_client):
        assert await broker.tell(transition("crawl/good", healthy=False)._replace(uid="uid-good"), 20) is None
        assert await priming.prime(broker, [external_proxy("good", phase="Ready")], lambda _: None) == 0
        refusal = await broker.acquire(new_id(), {}, "", 1000, COOLDOWN)
        assert refusal == NoMatch(considered=1, at_capacity=0, in_cooldown=0, unhealthy=1)
        await broker.close()


async def test_fifty_crawlers_take_five_thousand_leases_in_one_run(temporal_client: Client) -> None:
    async with broker_with(temporal_client, 10, max_leases=500) as broker:
        first = await run_id(temporal_client)

        async def crawler() -> None:
            for _ in range(100):
                await acquire(broker)

        await asyncio.gather(*(crawler() for _ in range(50)))
        assert isinstance(await broker.acquire(new_id(), {}, "", 1000, COOLDOWN), NoMatch)
        assert {proxy.active_leases for proxy in (await broker.list_proxies()).proxies} == {500}
        assert await run_id(temporal_client) == first


class WorkerProcess:
    """A broker's worker that can be killed."""

    def __init__(self, client: Client) -> None:
        command = [sys.executable, "-m", "tests.workflows.lease_broker_worker"]
        arguments = [client.service_client.config.target_host, client.namespace]
        self.process = subprocess.Popen([*command, *arguments], cwd=REPOSITORY)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


@pytest.fixture
def worker_process(temporal_client: Client) -> Iterator[list[WorkerProcess]]:
    workers = [WorkerProcess(temporal_client)]
    yield workers
    for worker in workers:
        worker.kill()


@pytest.mark.fault
async def test_killed_workers_lose_no_lease_and_overcommit_nothing(
    temporal_client: Client, worker_process: list[WorkerProcess]
) -> None:
    proxies, capacity = 10, 20
    broker = BrokerClient(temporal_client, INSTALLATION, settings=BrokerSettings(continue_as_new_after=30))
    await prime(broker, proxies, max_leases=capacity)
    held: dict[str, str] = {}
    grants: list[float] = []
    most: Counter[str] = Counter()
    stop = asyncio.Event()

    async def crawler() -> None:
        while not stop.is_set():
            try:
                lease_id, granted = await acquire(broker, ttl=300_000)
            except UnavailableError:
                continue
            grants.append(time.monotonic())
            held[lease_id] = granted.proxy_id
            load = Counter(held.values())[granted.proxy_id]
            most[granted.proxy_id] = max(most[granted.proxy_id], load)
            await asyncio.sleep(0.01)
            if len(held) > 100:
                # Counted out before it is released: only certain holders count.
                del held[lease_id]
                await broker.release(lease_id)

    async def granted_after(moment: float) -> bool:
        return grants[-1] > moment

    crawlers = [asyncio.create_task(crawler()) for _ in range(8)]
    for _ in range(2):
        await asyncio.sleep(2)
        worker_process[-1].kill()
        worker_process.append(WorkerProcess(temporal_client))
        await wait_until(functools.partial(granted_after, time.monotonic() + 0.1))
    await asyncio.sleep(1)
    stop.set()
    await asyncio.gather(*crawlers)
    gaps = [later - earlier for earlier, later in itertools.pairwise(grants)]
    assert max(gaps) < 10
    assert max(most.values()) <= capacity
    for lease_id in held:
        assert await broker.report(lease_id, "ok", "", COOLDOWN), "a granted lease is gone"
    await broker.close(20)
    listed = await broker.list_proxies()
    assert {proxy.id: proxy.active_leases for proxy in listed.proxies if proxy.active_leases} == Counter(held.values())


async def test_the_broker_runs_under_a_task_timeout_that_a_dead_worker_cannot_hold(temporal_client: Client) -> None:
    async with broker_with(temporal_client, 1, run_length=3) as broker:
        for _ in range(5):
            await acquire(broker, ttl=1)
        history = await broker_handle(temporal_client).fetch_history()
        started = history.events[0].workflow_execution_started_event_attributes
        assert started.continued_execution_run_id
        assert started.workflow_task_timeout.ToTimedelta() == timedelta(seconds=2)
        description = await broker_handle(temporal_client).describe()
        assert await description.memo_value(lease_broker.MEMO_INSTALLATION, "") == INSTALLATION
