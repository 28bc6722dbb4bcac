"""One Temporal worker per task queue, with slots of its own, so that nothing starves anything else."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from temporalio.client import Client
from temporalio.common import VersioningBehavior, WorkerDeploymentVersion
from temporalio.worker import UnsandboxedWorkflowRunner, Worker, WorkerDeploymentConfig, WorkflowRunner
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner, SandboxRestrictions

from app.settings import DeploymentSettings

logger = logging.getLogger(__name__)

GRACE = timedelta(seconds=15)
"""How long running activities may go on after SIGTERM."""
_STICKY_TIMEOUT = timedelta(seconds=1)


@dataclass(frozen=True, kw_only=True)
class QueuePlan:
    """What one task queue is served with.

    Attributes:
        activity_slots: Activities at once.
        cached_workflows: Workflows kept in memory.
        sandboxed: Whether workflow code is checked for determinism while it runs.
        versioned: Whether the queue belongs to the worker deployment, where this process has one. Queues that other
            processes serve too, at the edge, never do: their messages stay compatible instead.
    """

    workflows: Sequence[type] = ()
    activities: Sequence[Callable[..., Any]] = ()
    activity_slots: int = 100
    cached_workflows: int = 0
    sandboxed: bool = True
    versioned: bool = False
    interceptors: Sequence[Any] = field(default=())

    def merged(self, other: "QueuePlan") -> "QueuePlan":
        """Return the plan of a queue that serves both."""
        return QueuePlan(
            workflows=(*self.workflows, *other.workflows),
            activities=tuple(dict.fromkeys((*self.activities, *other.activities))),
            activity_slots=max(self.activity_slots, other.activity_slots),
            cached_workflows=max(self.cached_workflows, other.cached_workflows),
            sandboxed=self.sandboxed and other.sandboxed,
            versioned=self.versioned or other.versioned,
            interceptors=self.interceptors,
        )


class QueueWorkers:
    """The running workers; a queue once served is served until the end.

    Args:
        client: Of the Temporal namespace.
        version: The worker deployment version of this process, or None: then Temporal gives it work whatever it runs.
    """

    def __init__(self, client: Client, version: WorkerDeploymentVersion | None = None) -> None:
        self._client = client
        self._version = version
        self._workers: dict[str, Worker] = {}
        self._running: dict[str, asyncio.Task[None]] = {}

    def serve(self, plans: dict[str, QueuePlan]) -> None:
        """Start a worker for every queue that has none yet."""
        for queue, plan in plans.items():
            if queue in self._workers:
                continue
            worker = self._build(queue, plan)
            self._workers[queue] = worker
            self._running[queue] = asyncio.create_task(worker.run(), name=f"worker {queue}")
            logger.info("serving task queue %s", queue)

    @property
    def tasks(self) -> list[asyncio.Task[None]]:
        """The running workers; one that ends has failed."""
        return list(self._running.values())

    async def shut_down(self) -> None:
        """Take no new work, let running activities finish or hand over, and wait for it (about 15 s at most)."""
        await asyncio.gather(*(worker.shutdown() for worker in self._workers.values()), return_exceptions=True)
        await asyncio.gather(*self.tasks, return_exceptions=True)

    def _build(self, queue: str, plan: QueuePlan) -> Worker:
        return Worker(
            self._client,
            task_queue=queue,
            workflows=plan.workflows,
            activities=plan.activities,
            workflow_runner=_runner(plan),
            max_concurrent_activities=plan.activity_slots,
            max_cached_workflows=plan.cached_workflows,
            sticky_queue_schedule_to_start_timeout=_STICKY_TIMEOUT,
            graceful_shutdown_timeout=GRACE,
            interceptors=plan.interceptors,
            deployment_config=self._deployment(plan),
        )

    def _deployment(self, plan: QueuePlan) -> WorkerDeploymentConfig | None:
        if self._version is None or not plan.versioned:
            return None
        # Workflows that live for years must move to the current version: pinned ones would keep every old worker alive.
        # What they may not do over an upgrade, patches and replayed histories guard.
        return WorkerDeploymentConfig(
            version=self._version,
            use_worker_versioning=True,
            default_versioning_behavior=VersioningBehavior.AUTO_UPGRADE,
        )


def deployment_version(settings: DeploymentSettings) -> WorkerDeploymentVersion | None:
    """Return the version that the settings name, or None."""
    if not settings.name:
        return None
    return WorkerDeploymentVersion(settings.name, settings.build_id)


def _runner(plan: QueuePlan) -> WorkflowRunner:
    if not plan.sandboxed:
        return UnsandboxedWorkflowRunner()
    return SandboxedWorkflowRunner(restrictions=SandboxRestrictions.default.with_passthrough_modules("model"))
