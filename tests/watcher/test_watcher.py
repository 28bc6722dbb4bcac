"""The watcher between a real API server and a real Temporal server."""

import asyncio
import base64
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import Client

from activities.poking import poke_proxy
from cluster.connection import ClusterConnection
from cluster.proxies import ProxyStore
from cluster.watching import WatchSettings
from model import names
from model.errors import UnavailableError
from model.messages import Poke
from model.proxy import Condition, ProxyStatus
from tests.support.kubectl import Kubectl, proxy
from watcher.watcher import Watcher
from watcher.workflows import running_workflows

MANAGED = {"mode": "Managed", "provider": "box"}
WITH_SECRET = MANAGED | {"cloudInit": {"secretRef": {"name": "init"}}}
PACE = WatchSettings(relist=60.0, retry_first=0.1)
DEADLINE = 30.0

Running = Callable[[], Awaitable[set[tuple[str, str]]]]


class Sent:
    """Takes the pokes of a watcher."""

    def __init__(self) -> None:
        self.pokes: list[Poke] = []

    async def take(self, poke: Poke) -> None:
        self.pokes.append(poke)

    def of(self, name: str) -> list[Poke]:
        return [poke for poke in self.pokes if poke.name == name]

    def last_of(self, kubectl: Kubectl, *names: str) -> dict[str, bool]:
        """Whether the last poke of each was about an object that is there."""
        return {
            poke.name: bool(poke.fingerprint)
            for poke in self.pokes
            if poke.namespace == kubectl.namespace and poke.name in names
        }

    async def until(self, count: int, name: str = "one") -> None:
        await until(lambda: len(self.of(name)) >= count, lambda: f"{len(self.of(name))} pokes of {name}")


async def until(condition: Callable[[], bool], seen: Callable[[], str] = str) -> None:
    deadline = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < deadline, f"it did not happen in time: {seen()}"
        await asyncio.sleep(0.02)


@pytest.fixture
async def connection(kubeconfig: Path) -> AsyncIterator[ClusterConnection]:
    connection = await ClusterConnection.connect(kubeconfig)
    yield connection
    await connection.close()


async def nobody() -> set[tuple[str, str]]:
    return set()


@contextlib.asynccontextmanager
async def watching(
    connection: ClusterConnection,
    kubectl: Kubectl,
    send: Callable[[Poke], Awaitable[None]],
    running: Running | None = None,
    pace: WatchSettings = PACE,
) -> AsyncIterator[Watcher]:
    watcher = Watcher(
        connection, send=send, running_workflows=running or nobody, settings=pace, namespace=kubectl.namespace
    )
    task = asyncio.create_task(watcher.run())
    try:
        await until(lambda: watcher.is_ready or task.done())
        yield watcher
        assert not task.done(), "the watcher has ended"
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def apply(kubectl: Kubectl, *bodies: dict[str, Any]) -> None:
    result = await asyncio.to_thread(kubectl.apply, *bodies)
    assert result.returncode == 0, result.stderr


def secret(text: str, labelled: bool = True) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": "init"}
    if labelled:
        metadata["labels"] = {names.LABEL_CLOUD_INIT: "true"}
    data = {"user-data": base64.b64encode(text.encode()).decode()}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data}


async def test_each_change_that_matters_is_one_poke(connection: ClusterConnection, kubectl: Kubectl) -> None:
    sent = Sent()
    store = ProxyStore(connection, kubectl.namespace)
    async with watching(connection, kubectl, sent.take):
        await apply(kubectl, proxy("one", MANAGED))
        await sent.until(1)
        uid = sent.of("one")[0].uid
        await apply(kubectl, proxy("one", MANAGED | {"maxLeases": 2}))
        await sent.until(2)
        await kubectl.acall("annotate", "proxy", "one", f"{names.ANNOTATION_RETRY}=1")
        await sent.until(3)
        await store.add_finalizer(kubectl.namespace, "one", uid)
        await sent.until(4)
        # Echoes of our own writes, told apart by the marker that follows them.
        condition = Condition(type="Ready", status="True", reason="Ready", last_transition_time="2026-01-01T00:00:00Z")
        for phase in ("Provisioning", "Ready"):
            status = ProxyStatus(phase=phase, conditions=(condition,))
            await store.write_status(kubectl.namespace, "one", uid, status)
        await store.record_spec_hash(kubectl.namespace, "one", uid, "v1-a")
        await kubectl.acall("annotate", "proxy", "one", "someone.example.com/note=x")
        await apply(kubectl, proxy("marker", MANAGED))
        await sent.until(1, "marker")
        assert len(sent.of("one")) == 4
        await kubectl.acall("delete", "proxy", "one", "--wait=false")
        await sent.until(5)
        await store.release(kubectl.namespace, "one", uid)
        await sent.until(6)
    pokes = sent.of("one")
    assert {poke.uid for poke in pokes} == {uid}
    assert len({poke.fingerprint for poke in pokes}) == 6
    assert pokes[-1].fingerprint == ""
    assert not any(poke.look for poke in pokes)


async def test_what_was_there_before_is_poked_once_with_its_secret(
    connection: ClusterConnection, kubectl: Kubectl
) -> None:
    await apply(kubectl, secret("a"), proxy("one", WITH_SECRET))
    sent = Sent()
    async with watching(connection, kubectl, sent.take, running=only(kubectl, "one")):
        await sent.until(1)
        await apply(kubectl, proxy("marker", MANAGED))
        await sent.until(1, "marker")
        assert len(sent.of("one")) == 1


async def test_a_labelled_secret_pokes_who_names_it(connection: ClusterConnection, kubectl: Kubectl) -> None:
    sent = Sent()
    async with watching(connection, kubectl, sent.take):
        await apply(kubectl, proxy("one", WITH_SECRET), proxy("bystander", MANAGED))
        await sent.until(1)
        await sent.until(1, "bystander")
        await apply(kubectl, secret("a", labelled=False))
        await apply(kubectl, secret("a"))
        await sent.until(2)
        await apply(kubectl, secret("b"))
        await sent.until(3)
        await kubectl.acall("delete", "secret", "init")
        await sent.until(4)
    assert len(sent.of("bystander")) == 1
    prints = [poke.fingerprint for poke in sent.of("one")]
    assert prints[0] == prints[3]
    assert len(set(prints)) == 3


async def test_a_recreated_object_is_poked_under_its_new_uid(connection: ClusterConnection, kubectl: Kubectl) -> None:
    sent = Sent()
    async with watching(connection, kubectl, sent.take):
        await apply(kubectl, proxy("one", MANAGED))
        await sent.until(1)
        await kubectl.acall("delete", "proxy", "one")
        await apply(kubectl, proxy("one", MANAGED))
        await until(lambda: len({poke.uid for poke in sent.of("one") if poke.fingerprint}) == 2)


@pytest.mark.parametrize("everywhere", [False, True], ids=["one namespace", "all namespaces"])
async def test_a_namespace_that_is_deleted_takes_its_proxies_along_and_the_watch_goes_on(
    kubeconfig: Path, connection: ClusterConnection, kubectl: Kubectl, everywhere: bool
) -> None:
    doomed = Kubectl(kubeconfig, f"{kubectl.namespace}-doomed")
    await doomed.acall("create", "namespace", doomed.namespace)
    sent = Sent()
    scope = Kubectl(kubeconfig, "") if everywhere else doomed
    async with watching(connection, scope, sent.take):
        await apply(doomed, proxy("one", MANAGED), secret("a"), proxy("two", WITH_SECRET))
        await until(lambda: sent.last_of(doomed, "one", "two") == {"one": True, "two": True})
        await doomed.acall("delete", "namespace", doomed.namespace)
        await until(lambda: sent.last_of(doomed, "one", "two") == {"one": False, "two": False})
        if everywhere:
            await apply(kubectl, proxy("later", MANAGED))
            await sent.until(1, "later")


def only(kubectl: Kubectl, *with_workflow: str) -> Running:
    async def running() -> set[tuple[str, str]]:
        return {(kubectl.namespace, name) for name in with_workflow}

    return running


async def test_a_listing_anew_pokes_nobody_whose_object_is_unchanged(
    connection: ClusterConnection, kubectl: Kubectl
) -> None:
    await apply(kubectl, proxy("one", MANAGED))
    lists = 0

    async def running() -> set[tuple[str, str]]:
        nonlocal lists
        lists += 1
        return {(kubectl.namespace, "one"), ("of-another-namespace", "stray")}

    sent = Sent()
    pace = WatchSettings(relist=1.0, retry_first=0.1)
    async with watching(connection, kubectl, sent.take, running=running, pace=pace):
        await until(lambda: lists >= 3)
    assert [poke.name for poke in sent.pokes] == ["one"]


async def test_each_listing_finds_workflows_without_object_and_objects_without_workflow(
    connection: ClusterConnection, kubectl: Kubectl
) -> None:
    await apply(kubectl, proxy("unattended", MANAGED), proxy("attended", MANAGED))
    sent = Sent()
    pace = WatchSettings(relist=1.0, retry_first=0.1)
    async with watching(connection, kubectl, sent.take, running=only(kubectl, "attended", "zombie"), pace=pace):
        await sent.until(3, "unattended")
        await sent.until(2, "zombie")
    assert len(sent.of("attended")) == 1


async def test_temporal_out_of_reach_delays_the_comparison_and_ends_nothing(
    connection: ClusterConnection, kubectl: Kubectl
) -> None:
    asked = 0

    async def running() -> set[tuple[str, str]]:
        nonlocal asked
        asked += 1
        if asked < 3:
            raise UnavailableError("Temporal is down")
        return {(kubectl.namespace, "zombie")}

    sent = Sent()
    pace = WatchSettings(relist=1.0, retry_first=0.1)
    async with watching(connection, kubectl, sent.take, running=running, pace=pace):
        await sent.until(1, "zombie")
    assert asked >= 3


async def workflows_of(client: Client) -> dict[str, int]:
    """Return the number of signals that each running workflow has in its history, by id."""
    found: dict[str, int] = {}
    async for execution in client.list_workflows("ExecutionStatus = 'Running'"):
        history = await client.get_workflow_handle(execution.id).fetch_history()
        found[execution.id] = sum(
            event.HasField("workflow_execution_signaled_event_attributes") for event in history.events
        )
    return found


async def eventually(look: Callable[[], Awaitable[Any]], wanted: Any) -> None:
    deadline = time.monotonic() + DEADLINE
    while (found := await look()) != wanted:
        assert time.monotonic() < deadline, f"still {found!r}"
        await asyncio.sleep(0.1)


async def test_two_watchers_lead_to_one_workflow_per_proxy(
    kubeconfig: Path, connection: ClusterConnection, kubectl: Kubectl, temporal_client: Client
) -> None:
    """Nobody serves the queue: the workflows stay as the pokes made them."""

    async def send(poke: Poke) -> None:
        await poke_proxy(temporal_client, poke)

    async def running() -> set[tuple[str, str]]:
        return {(kubectl.namespace, "a"), (kubectl.namespace, "b")}

    second = await ClusterConnection.connect(kubeconfig)
    try:
        async with watching(connection, kubectl, send, running), watching(second, kubectl, send, running):
            await apply(kubectl, proxy("a", MANAGED), proxy("b", MANAGED))
            ids = {names.proxy_workflow_id(kubectl.namespace, name) for name in ("a", "b")}

            async def at_least_two() -> set[str]:
                return {found for found, signals in (await workflows_of(temporal_client)).items() if signals >= 2}

            await eventually(at_least_two, ids)
    finally:
        await second.close()
    keys = {(kubectl.namespace, "a"), (kubectl.namespace, "b")}
    await eventually(lambda: running_workflows(temporal_client), keys)


async def test_a_poke_starts_a_workflow_and_signals_one_that_runs(temporal_client: Client) -> None:
    for fingerprint in ("f1", "f2"):
        await poke_proxy(temporal_client, Poke(namespace="ns", name="n", uid="u", fingerprint=fingerprint))
    handle = temporal_client.get_workflow_handle("proxy/ns/n")
    description = await handle.describe()
    assert (description.workflow_type, description.task_queue) == ("ProxyWorkflow", names.QUEUE_CONTROL)
    assert await description.memo() == {"namespace": "ns", "name": "n"}
    history = await handle.fetch_history()
    signals = [
        event.workflow_execution_signaled_event_attributes
        for event in history.events
        if event.HasField("workflow_execution_signaled_event_attributes")
    ]
    assert [signal.signal_name for signal in signals] == ["changed", "changed"]
    assert b'"f2"' in signals[1].input.payloads[0].data


async def test_a_terminated_workflow_is_started_again_by_the_next_poke(temporal_client: Client) -> None:
    poke = Poke(namespace="ns", name="n")
    await poke_proxy(temporal_client, poke)
    handle = temporal_client.get_workflow_handle("proxy/ns/n")
    first = (await handle.describe()).run_id
    await handle.terminate()
    await poke_proxy(temporal_client, poke)
    second = await handle.describe()
    assert second.run_id != first
    assert second.status is not None
    assert second.status.name == "RUNNING"


async def test_a_workflow_started_by_hand_without_memo_is_passed_over(temporal_client: Client) -> None:
    await temporal_client.start_workflow("ProxyWorkflow", id="by-hand", task_queue="q")
    await temporal_client.start_workflow("Other", id="other", task_queue="q", memo={"namespace": "x", "name": "y"})
    long = "n" * 250
    await poke_proxy(temporal_client, Poke(namespace="ns", name=long))
    await eventually(lambda: running_workflows(temporal_client), {("ns", long)})


async def test_a_server_that_is_gone_is_unavailable(own_temporal: Any) -> None:
    server = await own_temporal()
    client = await Client.connect(server.address)
    await server.stop()
    with pytest.raises(UnavailableError, match="did not take a poke of ns/n"):
        await poke_proxy(client, Poke(namespace="ns", name="n"))
    with pytest.raises(UnavailableError, match="listing running workflows"):
        await running_workflows(client)
