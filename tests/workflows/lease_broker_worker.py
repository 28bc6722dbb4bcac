"""A worker for the lease broker alone: in this process, or as a process that a test can kill."""

import asyncio
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

from temporalio.client import Client
from temporalio.worker import UnsandboxedWorkflowRunner, Worker
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner

from model import names
from workflows.lease_broker import LeaseBroker


def broker_worker(client: Client, *, sandbox: bool = False) -> Worker:
    return Worker(
        client,
        task_queue=names.QUEUE_LEASES,
        workflows=[LeaseBroker],
        workflow_runner=SandboxedWorkflowRunner() if sandbox else UnsandboxedWorkflowRunner(),
        sticky_queue_schedule_to_start_timeout=timedelta(seconds=1),
    )


@asynccontextmanager
async def running_broker(
    client: Client, *, sandbox: bool = False, activities: Sequence[Any] = ()
) -> AsyncIterator[None]:
    """Serve the broker's queue and, where activities are given, the control queue."""
    async with broker_worker(client, sandbox=sandbox):
        if not activities:
            yield
            return
        async with Worker(client, task_queue=names.QUEUE_CONTROL, activities=activities):
            yield


async def _main(address: str, namespace: str) -> None:
    client = await Client.connect(address, namespace=namespace)
    await broker_worker(client).run()


if __name__ == "__main__":
    asyncio.run(_main(sys.argv[1], sys.argv[2]))
