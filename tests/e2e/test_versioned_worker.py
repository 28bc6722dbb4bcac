"""A worker that belongs to a worker deployment, from flag to workflow."""

import asyncio
import dataclasses

from temporalio.client import Client
from temporalio.common import WorkerDeploymentVersion

from app.settings import DeploymentSettings
from app.worker import run_worker
from model.names import LEASE_BROKER_ID, proxy_workflow_id
from tests.app.test_queue_workers import set_current
from tests.e2e.polling import eventually
from tests.e2e.system import System
from tests.probing.servers import ScriptedServer, relay


async def test_proxies_and_leases_run_on_the_current_version(system: System, check: dict[str, object]) -> None:
    settings = dataclasses.replace(
        system.worker_settings, deployment=DeploymentSettings(name="egress", build_id="2026.1")
    )
    gateway = ScriptedServer(relay)
    stop = asyncio.Event()
    worker = asyncio.create_task(run_worker(settings, stop))
    try:
        client = await Client.connect(system.temporal_address, namespace=system.temporal_namespace)
        await set_current(client, WorkerDeploymentVersion("egress", "2026.1"))
        system.start_watcher()
        endpoint = {"host": "127.0.0.1", "port": gateway.port}
        await system.apply("external", {"mode": "External", "endpoint": endpoint, "healthCheck": check})
        await system.apply("managed", {"mode": "Managed", "provider": "box", "healthCheck": check})
        for name in ("external", "managed"):
            await system.wait_ready(name)

        async def versions() -> list[str]:
            ids = [proxy_workflow_id(system.kubectl.namespace, "managed"), LEASE_BROKER_ID]
            found = [await client.get_workflow_handle(workflow_id).describe() for workflow_id in ids]
            infos = [one.raw_description.workflow_execution_info.versioning_info for one in found]
            return [info.deployment_version.build_id for info in infos]

        await eventually(versions, lambda found: found == ["2026.1", "2026.1"])
    finally:
        stop.set()
        await asyncio.gather(worker)
        gateway.close()
