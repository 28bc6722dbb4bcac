"""A fleet in which nothing happens: nobody writes, nobody is poked, no history grows."""

import asyncio
import os
from datetime import timedelta
from typing import Any

import pytest
from temporalio.client import Client

from cluster.connection import ClusterConnection
from cluster.proxies import collection_path
from model.names import proxy_workflow_id
from tests.e2e.polling import eventually
from tests.e2e.system import System, condition
from tests.probing.servers import Origin, ScriptedServer, relay
from tests.support.kubectl import proxy
from watcher.workflows import running_workflows

PROXIES = int(os.environ.get("EGRESS_PROXIES_TEST_IDLE_PROXIES", "150"))
SECONDS = float(os.environ.get("EGRESS_PROXIES_TEST_IDLE_SECONDS", "60"))
READY_SECONDS = 600.0
PROBE_SECONDS = 30


async def objects(connection: ClusterConnection, namespace: str) -> dict[str, dict[str, Any]]:
    return {
        item["metadata"]["name"]: item
        async for _, items in connection.pages(collection_path(namespace))
        for item in items
    }


async def history_lengths(client: Client, namespace: str, names: list[str]) -> dict[str, int]:
    slots = asyncio.Semaphore(20)

    async def length(name: str) -> int:
        async with slots:
            return (await client.get_workflow_handle(proxy_workflow_id(namespace, name)).describe()).history_length

    return dict(zip(names, await asyncio.gather(*map(length, names)), strict=True))


@pytest.mark.timeout(READY_SECONDS + SECONDS + 180)
async def test_an_idle_fleet_is_neither_written_to_nor_poked(
    system: System, site: Origin, monkeypatch: pytest.MonkeyPatch
) -> None:
    relists = 0

    async def counted(client: Client) -> set[tuple[str, str]]:
        nonlocal relists
        relists += 1
        return await running_workflows(client)

    monkeypatch.setattr("app.watcher.running_workflows", counted)
    gateway = ScriptedServer(relay)
    system.relist_interval = timedelta(seconds=SECONDS / 3)
    system.drift_check_interval = timedelta(seconds=SECONDS / 3)
    system.start_worker()
    system.start_watcher()
    check = {"probeURL": site.url, "intervalSeconds": PROBE_SECONDS, "timeoutSeconds": 20}
    spec = {"mode": "External", "endpoint": {"host": "127.0.0.1", "port": gateway.port}, "healthCheck": check}
    namespace = system.kubectl.namespace
    connection = await ClusterConnection.connect(system.kubectl.kubeconfig)
    try:
        for number in range(PROXIES):
            await connection.request("POST", collection_path(namespace), body=proxy(f"p{number:04}", spec))

        async def ready() -> int:
            found = await objects(connection, namespace)
            return sum(condition(item, "Ready").get("status") == "True" for item in found.values())

        await eventually(ready, lambda count: count == PROXIES, within=READY_SECONDS)
        client = await Client.connect(system.temporal_address, namespace=system.temporal_namespace)
        names = sorted(await objects(connection, namespace))
        for name in names:
            await system.wait_listed(name)

        async def state() -> tuple[dict[str, str], dict[str, int]]:
            found = await objects(connection, namespace)
            versions = {name: item["metadata"]["resourceVersion"] for name, item in found.items()}
            return versions, await history_lengths(client, namespace, names)

        before = await state()

        async def settled() -> bool:
            # The last statuses of the start are told to the broker, and the last tasks end, just after Ready.
            nonlocal before
            await asyncio.sleep(5)
            former, before = before, await state()
            return former == before

        await eventually(settled, within=60)
        relists = 0
        probes_before = gateway.connections
        await asyncio.sleep(SECONDS)
        after = await state()
        probes = gateway.connections - probes_before
        written = {name for name in names if before[0][name] != after[0][name]}
        grown = {name: after[1][name] - before[1][name] for name in names if before[1][name] != after[1][name]}
        print(f"{PROXIES} proxies, {SECONDS:.0f} s, {relists} relists, {probes} probes: {written=} {grown=}")
        assert relists >= 2
        assert probes >= PROXIES * SECONDS / PROBE_SECONDS / 2
        assert (written, grown) == (set(), {})
    finally:
        await connection.close()
        gateway.close()
