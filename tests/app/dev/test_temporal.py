import asyncio
import time
from datetime import timedelta
from pathlib import Path

import aiohttp
import pytest
from temporalio import workflow
from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest
from temporalio.client import Client
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from app.dev.ports import PortBook
from app.dev.processes import ProcessFailedError
from app.dev.temporal import TemporalServer
from tests.conftest import TemporalFactory
from tests.support.listening import listen

QUEUE = "queue"


@workflow.defn(sandboxed=False)
class Collector:
    """Collects what it is signalled until it is told to end."""

    def __init__(self) -> None:
        self._words: list[str] = []

    @workflow.run
    async def run(self) -> list[str]:
        await workflow.wait_condition(lambda: "end" in self._words)
        return self._words

    @workflow.signal
    def add(self, word: str) -> None:
        self._words.append(word)


def worker(client: Client) -> Worker:
    return Worker(client, task_queue=QUEUE, workflows=[Collector], workflow_runner=UnsandboxedWorkflowRunner())


@pytest.mark.fault
async def test_workflows_survive_a_kill_and_a_restart_on_the_same_port(own_temporal: TemporalFactory) -> None:
    server = await own_temporal(synchronous="FULL")
    address = server.address
    client = await Client.connect(address)
    handle = await client.start_workflow(Collector.run, id="kept", task_queue=QUEUE)
    await handle.signal(Collector.add, "before")

    await server.kill()
    assert server.child is None
    await server.start()
    assert server.address == address
    await handle.signal(Collector.add, "between")

    await server.stop()
    await server.start()
    await handle.signal(Collector.add, "end")
    again = (await Client.connect(address)).get_workflow_handle("kept", result_type=list[str])
    async with worker(await Client.connect(address)), asyncio.timeout(60):
        assert await again.result() == ["before", "between", "end"]


async def test_further_namespaces_are_there_at_each_start(own_temporal: TemporalFactory) -> None:
    server = await own_temporal(namespaces=["one", "two"], search_attributes={"ProxyPhase": "Keyword"})
    await server.stop()
    await server.start()
    client = await Client.connect(server.address)
    for name in ("default", "one", "two"):
        answer = await client.workflow_service.describe_namespace(DescribeNamespaceRequest(namespace=name))
        assert answer.namespace_info.name == name


async def test_the_web_interface_is_served_when_it_is_asked_for(own_temporal: TemporalFactory) -> None:
    server = await own_temporal(ui=True)
    assert server.ui_url is not None
    async with aiohttp.ClientSession() as session, session.get(server.ui_url) as response:
        assert response.status == 200
        assert "text/html" in response.headers["Content-Type"]


async def test_without_the_web_interface_there_is_no_address_of_it(own_temporal: TemporalFactory) -> None:
    assert (await own_temporal()).ui_url is None


async def test_variables_that_name_another_server_are_not_meant_for_it(
    own_temporal: TemporalFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEMPORAL_ADDRESS", "192.0.2.1:7233")
    monkeypatch.setenv("TEMPORAL_NAMESPACE", "elsewhere")
    await own_temporal()


async def test_a_port_taken_since_the_last_start_is_replaced(own_temporal: TemporalFactory) -> None:
    server = await own_temporal()
    await server.stop()
    host, _, port = server.address.partition(":")
    with listen(host, int(port)):
        await server.start()
    assert server.address != f"{host}:{port}"


async def test_a_program_that_does_not_start_is_reported(tmp_path: Path) -> None:
    broken = tmp_path / "temporal"
    broken.write_text("#!/bin/sh\necho cannot do that\nexit 3\n")
    broken.chmod(0o755)
    server = TemporalServer(tmp_path / "state", broken, PortBook(tmp_path / "ports.json"))
    with pytest.raises(ProcessFailedError, match=r"temporal ended with code 3(.|\n)*cannot do that"):
        await server.start()
    assert server.child is None


async def test_a_fresh_namespace_runs_workflows_at_once(temporal_client: Client) -> None:
    started = time.monotonic()
    async with worker(temporal_client):
        handle = await temporal_client.start_workflow(
            Collector.run, id="quick", task_queue=QUEUE, execution_timeout=timedelta(seconds=60)
        )
        await handle.signal(Collector.add, "end")
        assert await handle.result() == ["end"]
    assert time.monotonic() - started < 10


async def test_fresh_namespaces_do_not_see_each_other(temporal_client: Client, temporal_address: str) -> None:
    assert temporal_client.namespace.startswith("test-")
    await temporal_client.start_workflow(Collector.run, id="same", task_queue=QUEUE)
    default = await Client.connect(temporal_address)
    assert "same" not in [execution.id async for execution in default.list_workflows()]
