"""Waiting for the leases of an instance, over the real broker."""

import asyncio
import time
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import cast

import pytest
from temporalio import workflow
from temporalio.api.enums.v1 import PendingActivityState
from temporalio.client import Client, WorkflowHandle
from temporalio.common import RetryPolicy
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory
from temporalio.testing import ActivityEnvironment
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from activities import broker as broker_activities
from activities.broker import BrokerActivities
from cluster.proxies import ProxyStore
from leasing.client import BrokerClient
from model import messages, names
from model.lease_broker import LEASES_NOT_KNOWN
from tests.leasing.brokers import INSTALLATION, acquire, broker_with, prime, transition
from tests.leasing.polling import wait_until

PROXY = "ns/0000"
REFERENCE = messages.ProxyReference(namespace="ns", name="0000", uid=f"uid-{PROXY}")
QUEUE = "drains"


def drain_of(seconds: float, instance: str = "one") -> messages.DrainProxy:
    return messages.DrainProxy(reference=REFERENCE, instance=instance, ends_at=int((time.time() + seconds) * 1000))


async def begin(broker: BrokerClient, seconds: float) -> messages.DrainProxy:
    """Let the proxy drain for so long, as its workflow would."""
    drain = drain_of(seconds)
    assert await broker.tell(transition(PROXY, counter=2, leasable=False, drain_ends_at=drain.ends_at)) is None
    return drain


async def wait_for(broker: BrokerClient, drain: messages.DrainProxy) -> int:
    activities = BrokerActivities(broker, cast("ProxyStore", None))
    return int(await ActivityEnvironment().run(activities.drain_proxy, drain))


@pytest.fixture
async def broker(temporal_client: Client) -> AsyncIterator[BrokerClient]:
    async with broker_with(temporal_client, 1) as broker:
        yield broker


async def test_without_a_lease_it_is_drained_at_once(broker: BrokerClient) -> None:
    assert await wait_for(broker, await begin(broker, 600)) == 0


async def test_it_is_drained_as_soon_as_the_last_lease_is_released(broker: BrokerClient) -> None:
    lease_id, _ = await acquire(broker)
    waiting = asyncio.create_task(wait_for(broker, await begin(broker, 600)))
    done, _ = await asyncio.wait([waiting], timeout=1)
    assert not done
    await broker.release(lease_id)
    assert await asyncio.wait_for(waiting, 10) == 0


async def test_at_its_end_it_returns_what_is_left(broker: BrokerClient) -> None:
    await acquire(broker)
    await acquire(broker)
    drain = await begin(broker, 1.5)
    assert await wait_for(broker, drain) == 2
    assert time.time() >= drain.ends_at / 1000


async def test_leases_on_another_instance_do_not_count(broker: BrokerClient) -> None:
    await broker.tell(transition(PROXY, counter=3, instance="two"))
    await acquire(broker)
    assert await wait_for(broker, drain_of(600)) == 0


async def test_a_broker_that_forgot_everything_has_none_left_once_it_is_primed(
    temporal_client: Client, broker: BrokerClient
) -> None:
    await acquire(broker)
    drain = await begin(broker, 600)
    await temporal_client.get_workflow_handle(names.LEASE_BROKER_ID).terminate()
    waiting = asyncio.create_task(wait_for(broker, drain))
    done, _ = await asyncio.wait([waiting], timeout=1)
    assert not done
    await prime(broker, 1)
    assert await asyncio.wait_for(waiting, 10) == 0


async def test_a_broker_out_of_reach_is_asked_until_the_end(
    temporal_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(broker_activities, "_DRAIN_QUICKLY_SECONDS", 0.0)
    lonely = BrokerClient(temporal_client, INSTALLATION)
    with pytest.raises(ApplicationError) as caught:
        await wait_for(lonely, drain_of(600))
    assert (caught.value.category, caught.value.non_retryable) == (ApplicationErrorCategory.BENIGN, False)
    assert caught.value.next_retry_delay == timedelta(seconds=5)
    assert await wait_for(lonely, drain_of(-1)) == LEASES_NOT_KNOWN


@workflow.defn(sandboxed=False)
class Drainer:
    @workflow.run
    async def run(self, drain: messages.DrainProxy) -> int:
        left: int = await workflow.execute_activity(
            "drain_proxy",
            drain,
            result_type=int,
            schedule_to_close_timeout=timedelta(minutes=5),
            start_to_close_timeout=timedelta(seconds=30),
            heartbeat_timeout=timedelta(seconds=10),
            retry_policy=RetryPolicy(initial_interval=timedelta(seconds=1)),
        )
        return left


async def attempts(handle: WorkflowHandle[Drainer, int]) -> int:
    (pending,) = (await handle.describe()).raw_description.pending_activities
    waiting = pending.state == PendingActivityState.PENDING_ACTIVITY_STATE_SCHEDULED
    return pending.attempt if waiting else 0


async def test_a_long_drain_holds_no_slot_and_adds_no_history(
    temporal_client: Client, broker: BrokerClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(broker_activities, "_DRAIN_QUICKLY_SECONDS", 0.3)
    monkeypatch.setattr(broker_activities, "_DRAIN_LATER_SECONDS", 1.0)
    lease_id, _ = await acquire(broker)
    drain = await begin(broker, 600)
    activities = BrokerActivities(broker, cast("ProxyStore", None))
    async with Worker(
        temporal_client,
        task_queue=QUEUE,
        workflows=[Drainer],
        activities=[activities.drain_proxy],
        workflow_runner=UnsandboxedWorkflowRunner(),
    ):
        handle = await temporal_client.start_workflow(Drainer.run, drain, id="drainer", task_queue=QUEUE)

        async def was_tried_three_times() -> bool:
            return await attempts(handle) >= 3

        await asyncio.sleep(0.5)
        await wait_until(was_tried_three_times)
        before = (await handle.describe()).history_length
        await broker.release(lease_id)
        assert await handle.result() == 0
        assert before <= 5
