"""Events that go with a status: after it, once, and never in its way."""

import asyncio
import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from temporalio.testing import ActivityEnvironment

from activities.proxies import ProxyActivities
from cluster.connection import ClusterConnection
from cluster.events import EventWriter
from cluster.proxies import ProxyStore
from cluster.secrets import CloudInitReader
from model.messages import ObjectEvent, ProxyReference, StatusWrite
from model.proxy import ProxyStatus
from providers.config import ProvidersFile
from providers.registry import ProviderRegistry
from tests.cluster.scripted_api import ScriptedApi, refusal
from tests.support.kubectl import Kubectl, proxy

EXTERNAL = {"mode": "External", "endpoint": {"host": "127.0.0.1"}}
EVENT = ObjectEvent(warning=True, reason="Unhealthy", message="ConnectRefused")


def no_provider(*_arguments: Any) -> Any:
    raise AssertionError("no provider is configured")


def activities_of(connection: ClusterConnection, events: ClusterConnection, directory: Path) -> ProxyActivities:
    config = directory / "providers.yaml"
    config.write_text("providers: []\n")
    registry = ProviderRegistry(ProvidersFile(config), "test", build=no_provider)
    return ProxyActivities(ProxyStore(connection), CloudInitReader(connection), registry, events=EventWriter(events))


async def write_of(kubectl: Kubectl) -> StatusWrite:
    result = await asyncio.to_thread(kubectl.apply, proxy("one", EXTERNAL))
    assert result.returncode == 0, result.stderr
    uid = (await asyncio.to_thread(kubectl.get, "proxy", "one"))["metadata"]["uid"]
    reference = ProxyReference(namespace=kubectl.namespace, name="one", uid=uid)
    return StatusWrite(reference=reference, status=ProxyStatus(phase="Unhealthy"), events=[EVENT])


async def write(activities: ProxyActivities, what: StatusWrite) -> bool:
    written: bool = await ActivityEnvironment().run(activities.write_status, what)
    return written


async def reasons_of(kubectl: Kubectl) -> list[Any]:
    return [event["reason"] for event in json.loads(await kubectl.acall("get", "events", "-o", "json"))["items"]]


async def phase_of(kubectl: Kubectl) -> str:
    return str((await asyncio.to_thread(kubectl.get, "proxy", "one"))["status"]["phase"])


@pytest.fixture(autouse=True)
def _patience_on_a_busy_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cluster.events._TOGETHER_SECONDS", 20.0)


@pytest.fixture
async def connection(kubeconfig: Path) -> Any:
    connection = await ClusterConnection.connect(kubeconfig)
    yield connection
    await connection.close()


async def test_a_retried_activity_doubles_no_event(
    connection: ClusterConnection, kubectl: Kubectl, tmp_path: Path
) -> None:
    activities = activities_of(connection, connection, tmp_path)
    what = await write_of(kubectl)
    assert await write(activities, what)
    assert await write(activities, what)
    assert await reasons_of(kubectl) == ["Unhealthy"]


async def test_another_object_gets_neither_status_nor_event(
    connection: ClusterConnection, kubectl: Kubectl, tmp_path: Path
) -> None:
    what = await write_of(kubectl)
    other = dataclasses.replace(what, reference=dataclasses.replace(what.reference, uid="another"))
    assert not await write(activities_of(connection, connection, tmp_path), other)
    assert await reasons_of(kubectl) == []


@pytest.mark.parametrize("status", [403, 429, 500])
async def test_a_status_stands_though_its_events_are_refused(
    connection: ClusterConnection, kubectl: Kubectl, tmp_path: Path, status: int
) -> None:
    async def refuse(_request: Any) -> Any:
        return refusal(status)

    async with ScriptedApi(tmp_path) as scripted:
        scripted.on_list = refuse
        refusing = await ClusterConnection.connect(scripted.kubeconfig)
        try:
            assert await write(activities_of(connection, refusing, tmp_path), await write_of(kubectl))
        finally:
            await refusing.close()
    assert len(scripted.lists) == 1
    assert await phase_of(kubectl) == "Unhealthy"
