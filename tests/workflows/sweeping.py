"""OrphanGC and ProviderCheck on a real Temporal server, with real activities over providers in memory."""

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from prometheus_client import CollectorRegistry
from temporalio import activity
from temporalio.client import (
    Client,
    Schedule,
    ScheduleActionExecutionStartWorkflow,
    ScheduleIntervalSpec,
    ScheduleOverlapPolicy,
    ScheduleSpec,
    WorkflowExecutionStatus,
    WorkflowHandle,
)
from temporalio.worker import Worker
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner, SandboxRestrictions

from activities.collection import CollectionActivities, CollectionMetrics
from activities.drift import DriftActivities
from app.schedules import ensure_schedule
from cluster.connection import ClusterConnection
from cluster.live_proxies import LiveProxies
from cluster.proxies import ProxyStore
from model import names
from model.collection_messages import Reconciliation, SweepReport
from providers.registry import ProviderRegistry
from tests.e2e.polling import eventually
from workflows.orphan_gc import OrphanGC
from workflows.provider_check import ProviderCheck

RUNNER = SandboxedWorkflowRunner(restrictions=SandboxRestrictions.default.with_passthrough_modules("model"))


@activity.defn(name="reconcile_strays")
async def nothing_astray() -> Reconciliation:
    return Reconciliation()


def collecting(registry: ProviderRegistry, connection: ClusterConnection, namespace: str) -> list[Any]:
    """Return the activities of both queues, for the Proxies of one namespace."""
    live = LiveProxies(connection, namespace)
    metrics = CollectionMetrics(CollectorRegistry())
    collection = CollectionActivities(registry, live, "ours", metrics, allow_namespaced=True)
    return [collection.find_orphans, collection.collect_orphan, collection.existing_uids, nothing_astray]


@asynccontextmanager
async def serving(
    client: Client,
    registry: ProviderRegistry,
    connection: ClusterConnection,
    activities: Sequence[Any],
    queues: Sequence[str] = (names.QUEUE_PROVIDER,),
    more_workflows: Sequence[type] = (),
) -> AsyncIterator[None]:
    """Serve the control queue and those of providers."""
    drift = DriftActivities(registry, ProxyStore(connection), client, "ours")
    control = [drift.list_providers, *activities]
    async with AsyncExitStack() as workers:
        await workers.enter_async_context(
            Worker(
                client,
                task_queue=names.QUEUE_CONTROL,
                workflows=[OrphanGC, ProviderCheck, *more_workflows],
                activities=control,
                workflow_runner=RUNNER,
            )
        )
        for queue in queues:
            await workers.enter_async_context(Worker(client, task_queue=queue, activities=activities))
        yield


@dataclass
class Runs:
    """The runs of a schedule that the test starts one by one."""

    client: Client
    schedule_id: str
    seen: list[str] = field(default_factory=list)

    @classmethod
    async def of(cls, client: Client, schedule_id: str, schedule: Schedule) -> "Runs":
        """Create the schedule without runs of its own."""
        never = ScheduleSpec(intervals=[ScheduleIntervalSpec(every=timedelta(days=300))])
        await ensure_schedule(client, schedule_id, dataclasses.replace(schedule, spec=never))
        return cls(client, schedule_id)

    async def start(self) -> WorkflowHandle[Any, Any]:
        """Start a run, once the one before has ended for the schedule too."""
        handle = self.client.get_schedule_handle(self.schedule_id)

        async def idle() -> bool:
            if self._id_of_now() in self.seen:
                # A run's id ends in its second, and one of an id that was used is never started.
                return False
            return not (await handle.describe()).info.running_actions

        await eventually(idle)
        # The schedule may learn later than we do that a run has ended; it would leave the next one out until then.
        await handle.trigger(overlap=ScheduleOverlapPolicy.BUFFER_ONE)

        async def fresh() -> str:
            executions = [action.action for action in (await handle.describe()).info.recent_actions]
            ids = [each.workflow_id for each in executions if isinstance(each, ScheduleActionExecutionStartWorkflow)]
            return next((each for each in ids if each not in self.seen), "")

        workflow_id = await eventually(fresh, within=60)
        self.seen.append(workflow_id)
        return self.client.get_workflow_handle(workflow_id)

    def _id_of_now(self) -> str:
        return f"{self.schedule_id}-{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"

    async def sweep(self) -> SweepReport:
        """Run to the end."""
        handle = await self.start()
        report: SweepReport = await self.client.get_workflow_handle(handle.id, result_type=SweepReport).result()
        return report


async def ended(handle: WorkflowHandle[Any, Any]) -> WorkflowExecutionStatus:
    """Wait until a run has ended, whichever way, and say how."""

    async def status() -> WorkflowExecutionStatus | None:
        return (await handle.describe()).status

    found = await eventually(status, lambda seen: seen is not WorkflowExecutionStatus.RUNNING, within=60)
    assert found is not None
    return found


async def pause(seconds: float) -> None:
    """Let time pass that the rules ask for."""
    await asyncio.sleep(seconds)
