"""Serves the lease broker alone, with the settings of the product's worker.

``python -m bench.run_changes_worker ADDRESS NAMESPACE``
"""

import asyncio
import signal
import sys
from datetime import timedelta

from temporalio.client import Client
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from model import names
from workflows.lease_broker import LeaseBroker


async def main(address: str, namespace: str) -> None:
    """Serve until SIGTERM."""
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    async with Worker(
        await Client.connect(address, namespace=namespace),
        task_queue=names.QUEUE_LEASES,
        workflows=[LeaseBroker],
        workflow_runner=UnsandboxedWorkflowRunner(),
        sticky_queue_schedule_to_start_timeout=timedelta(seconds=1),
    ):
        await stop.wait()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2]))
