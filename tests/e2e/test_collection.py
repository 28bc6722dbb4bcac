"""Real instances whose Proxy is gone are collected, and no others; providers' checks reach kubectl and Prometheus."""

import asyncio
import dataclasses
import json
import secrets
import subprocess
from datetime import timedelta
from pathlib import Path

import aiohttp
import pytest
from temporalio.client import Client

from app.settings import CollectionSettings, ProviderCheckSettings, ServingSettings, WatcherSettings, WorkerSettings
from app.watcher import run_watcher
from app.worker import run_worker
from model import names
from model.names import proxy_workflow_id
from tests.e2e.polling import eventually
from tests.e2e.system import System, free_port

INTERVAL_SECONDS = 8
pytestmark = pytest.mark.timeout(400)


@pytest.fixture
def provider(system: System) -> str:
    """A provider with a name of this test's own: ProviderHealth objects belong to no namespace."""
    name = f"box-{secrets.token_hex(4)}"
    system.write_providers(system.local_provider(name))
    return name


def settings(system: System) -> WorkerSettings:
    collection = CollectionSettings(
        interval=timedelta(seconds=INTERVAL_SECONDS), minimum_age=timedelta(seconds=1), allow_namespaced=True
    )
    checks = ProviderCheckSettings(interval=timedelta(seconds=10))
    return dataclasses.replace(system.worker_settings, collection=collection, provider_check=checks)


def start_worker(system: System) -> None:
    chosen = settings(system)
    system._start("worker", lambda stop: run_worker(chosen, stop))


async def abandon(system: System, name: str) -> None:
    """Make the Proxy vanish behind its workflow's back: no workflow, no finalizer, no object."""
    client = await Client.connect(system.temporal_address, namespace=system.temporal_namespace)
    workflow = client.get_workflow_handle(proxy_workflow_id(system.kubectl.namespace, name))
    await workflow.terminate("abandoned by a test")
    await system.kubectl.acall("delete", "px", name, "--wait=false")
    await system.kubectl.acall("patch", "px", name, "--type=merge", "-p", '{"metadata": {"finalizers": []}}')


async def make(system: System, provider: str, check: dict[str, object], *proxies: str) -> dict[str, str]:
    """Apply Proxies, and return their uids once they are Ready."""
    for name in proxies:
        await system.apply(name, {"mode": "Managed", "provider": provider, "healthCheck": check})
    return {name: (await system.wait_ready(name, within=100))["metadata"]["uid"] for name in proxies}


async def test_an_orphan_is_collected_and_a_live_one_is_not(
    system: System, provider: str, check: dict[str, object]
) -> None:
    start_worker(system)
    system.start_watcher()
    system.start_api()
    uids = await make(system, provider, check, "lost", "kept")
    [kept] = system.processes_of(uids["kept"])
    await system.stop("watcher")
    await abandon(system, "lost")
    assert len(system.processes_of(uids["lost"])) == 1

    async def orphans() -> int:
        return len(await asyncio.to_thread(system.processes_of, uids["lost"]))

    await eventually(orphans, lambda count: count == 0, within=90)
    assert system.processes_of(uids["kept"]) == [kept]
    assert (await system.get("kept"))["status"]["phase"] == "Ready"
    # The broker is rid of it too, although no watcher ever said that the object went.
    await eventually(system.list_proxies, lambda listed: set(listed) == {"kept"}, within=60)


async def test_a_worker_killed_between_list_and_deletion_leaves_the_orphan_to_the_next(
    system: System, provider: str, check: dict[str, object], tmp_path: Path
) -> None:
    gates = tmp_path / "gates"
    gates.mkdir()
    told = {
        "kubeconfig": str(system.kubectl.kubeconfig),
        "namespace": system.kubectl.namespace,
        "installation": system.installation,
        "providers": str(system.providers_file),
        "interval": INTERVAL_SECONDS,
        "gates": str(gates),
    }

    def start_process() -> "subprocess.Popen[bytes]":
        return system._spawn("worker", "-m", "tests.e2e.collecting_worker", json.dumps(told))

    worker = start_process()
    system.start_watcher()
    uids = await make(system, provider, check, "lost", "kept")
    await system.stop("watcher")
    await abandon(system, "lost")

    async def reached() -> bool:
        return (gates / "reached").exists()

    await eventually(reached, within=90)
    worker.kill()
    await asyncio.to_thread(worker.wait)
    assert len(system.processes_of(uids["lost"])) == 1
    (gates / "open").touch()
    start_process()

    async def orphans() -> int:
        return len(await asyncio.to_thread(system.processes_of, uids["lost"]))

    await eventually(orphans, lambda count: count == 0, within=100)
    assert len(system.processes_of(uids["kept"])) == 1


async def test_provider_health_is_seen_with_kubectl_and_prometheus(system: System, provider: str) -> None:
    port = free_port()
    watching = WatcherSettings(cluster=system.cluster, serving=ServingSettings(metrics_address=f"127.0.0.1:{port}"))
    start_worker(system)
    system._start("watcher", lambda stop: run_watcher(watching, stop))

    async def ready() -> list[str]:
        result = await system.kubectl.arun("get", "ph", provider, "--no-headers", "--ignore-not-found")
        return result.stdout.split()[:4]

    # The box has not been used yet, which some checks call ready and some do not: a verdict is what counts here.
    line = await eventually(ready, lambda seen: len(seen) == 4 and seen[2] in ("True", "False", "Unknown"), within=60)
    assert line[:2] == [provider, "local"]

    async def page() -> str:
        try:
            async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{port}/metrics") as answer:
                return await answer.text()
        except aiohttp.ClientConnectionError:
            return ""

    success = f'proxy_operator_schedule_last_success_timestamp_seconds{{schedule="{names.PROVIDER_CHECK_ID}"}}'
    text = await eventually(page, lambda seen: success in seen, within=90)
    if line[2] != "Unknown":
        assert f'proxy_operator_provider_target_up{{provider="{provider}",target=' in text
    system.write_providers(system.local_provider(f"{provider}-renamed"))
    await eventually(page, lambda seen: f'provider="{provider}"' not in seen, within=60)
    assert await ready() == []
