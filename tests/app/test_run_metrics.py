"""When scheduled work last went well, as Temporal says."""

import asyncio
from datetime import timedelta

from temporalio import workflow
from temporalio.client import Client
from temporalio.exceptions import ApplicationError
from temporalio.worker import Worker

from app.metrics_registry import TolerantRegistry
from app.run_metrics import RunCollector, follow_runs
from model import names
from tests.e2e.polling import eventually

NAME = "proxy_operator_schedule_last_success_timestamp_seconds"


@workflow.defn(name="OrphanGC", sandboxed=False)
class Sweep:
    @workflow.run
    async def run(self, fails: bool) -> None:
        if fails:
            raise ApplicationError("list failed")


async def test_only_a_success_moves_the_time(temporal_client: Client) -> None:
    collector, registry = RunCollector(), TolerantRegistry()
    registry.register(collector)
    async with Worker(temporal_client, task_queue="q", workflows=[Sweep]):
        done = await temporal_client.start_workflow(Sweep.run, False, id="one", task_queue="q")
        await done.result()
        failed = await temporal_client.start_workflow(
            Sweep.run, True, id="two", task_queue="q", execution_timeout=timedelta(seconds=20)
        )
        await asyncio.gather(failed.result(), return_exceptions=True)
    ended_at = (await done.describe()).close_time
    assert ended_at is not None

    async def told() -> float | None:
        following = asyncio.create_task(follow_runs(temporal_client, collector))
        await asyncio.sleep(0.5)
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
        return registry.get_sample_value(NAME, {"schedule": names.ORPHAN_GC_ID})

    assert await eventually(told) == ended_at.timestamp()
    assert registry.get_sample_value(NAME, {"schedule": names.PROVIDER_CHECK_ID}) is None
