"""What outlived its Proxy is poked, and what cannot be compared is told."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from temporalio.client import Client
from temporalio.testing import ActivityEnvironment

from activities.strays import StrayActivities
from cluster.connection import ClusterConnection
from cluster.live_proxies import LiveProxies
from leasing.client import BrokerClient
from model import names
from model.errors import UnavailableError
from tests.providers.scripted import ScriptedProvider
from tests.providers.swept import registry_of
from tests.support.kubectl import Kubectl, proxy


@pytest.fixture
async def connection(kubeconfig: Path) -> AsyncIterator[ClusterConnection]:
    connection = await ClusterConnection.connect(kubeconfig)
    yield connection
    await connection.close()


async def started(client: Client, namespace: str, name: str) -> bool:
    query = f"WorkflowId = '{names.proxy_workflow_id(namespace, name)}'"
    return bool([each async for each in client.list_workflows(query)])


async def test_a_workflow_without_its_object_is_poked_though_the_broker_is_silent(
    temporal_client: Client, connection: ClusterConnection, kubectl: Kubectl, tmp_path: Path
) -> None:
    here = kubectl.namespace
    assert kubectl.apply(proxy("there", {"mode": "Managed", "provider": "left-the-config"})).returncode == 0

    async def running() -> set[tuple[str, str]]:
        return {(here, "there"), (here, "gone"), ("another-namespace", "gone")}

    broker = BrokerClient(temporal_client, "ours", timeout=0.5)
    registry = registry_of(tmp_path, {"box": ScriptedProvider()})
    strays = StrayActivities(registry, LiveProxies(connection, here), broker, temporal_client, running)
    found = await ActivityEnvironment().run(strays.reconcile_strays)
    assert (found.stray_workflows, found.stale_broker_entries) == (1, 0)
    assert found.unconfigured == {"left-the-config": 1}
    assert [error.partition(":")[0] for error in found.errors] == ["lease broker"]
    handle = temporal_client.get_workflow_handle(names.proxy_workflow_id(here, "gone"))
    assert (await handle.describe()).workflow_type == "ProxyWorkflow"
    assert not await started(temporal_client, here, "there")
    await broker.close()


async def test_workflows_that_cannot_be_listed_are_told(
    temporal_client: Client, connection: ClusterConnection, kubectl: Kubectl, tmp_path: Path
) -> None:
    async def running() -> set[tuple[str, str]]:
        raise UnavailableError("listing running workflows: no answer in time")

    broker = BrokerClient(temporal_client, "ours", timeout=0.5)
    registry = registry_of(tmp_path, {"box": ScriptedProvider()})
    strays = StrayActivities(registry, LiveProxies(connection, kubectl.namespace), broker, temporal_client, running)
    found = await ActivityEnvironment().run(strays.reconcile_strays)
    assert found.errors[1] == "listing running workflows: no answer in time"
    await broker.close()
