"""Sweeps on a real Temporal server and a real API server, over providers in memory."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest
from aiohttp import web
from temporalio import workflow
from temporalio.api.enums.v1 import EventType
from temporalio.client import Client, WorkflowExecutionStatus, WorkflowFailureError
from temporalio.exceptions import ApplicationError
from temporalio.worker import Replayer, Worker

from app.schedules import collection_schedule
from app.settings import CollectionSettings
from cluster.connection import ClusterConnection
from model import names
from model.collection_messages import DELETED, LIST_FAILED, OWNED, WOULD_DELETE, SweepSettings
from model.errors import PermanentError, TransientError
from providers.registry import ProviderRegistry
from tests.cluster.scripted_api import ScriptedApi, page, refusal
from tests.providers.swept import SweptProvider, registry_of
from tests.support.kubectl import Kubectl, proxy
from tests.workflows.sweeping import RUNNER, Runs, collecting, ended, pause, serving
from workflows.orphan_gc import OrphanGC

INTERVAL = timedelta(seconds=6)
HALF = 3.1


def settings(**changes: object) -> CollectionSettings:
    values: dict[str, object] = {"interval": INTERVAL, "minimum_age": timedelta(minutes=1), **changes}
    return CollectionSettings(**values)  # type: ignore[arg-type]


async def runs_of(client: Client, **changes: object) -> Runs:
    return await Runs.of(client, names.ORPHAN_GC_ID, collection_schedule(settings(**changes)))


@pytest.fixture
async def connection(kubeconfig: Path) -> AsyncIterator[ClusterConnection]:
    connection = await ClusterConnection.connect(kubeconfig)
    yield connection
    await connection.close()


def uid_of(kubectl: Kubectl, name: str) -> str:
    assert kubectl.apply(proxy(name, {"mode": "Managed", "provider": "box"})).returncode == 0
    uid: str = kubectl.get("px", name)["metadata"]["uid"]
    return uid


async def test_an_orphan_goes_in_the_second_sweep_and_nothing_else_ever(
    temporal_client: Client, connection: ClusterConnection, kubectl: Kubectl, tmp_path: Path
) -> None:
    box = SweptProvider()
    live = await asyncio.to_thread(uid_of, kubectl, "live")
    for uid, changes in {
        live: {},
        "orphan": {},
        "theirs": {"installation": "theirs"},
        "unmarked": {"installation": ""},
        "young": {"age": timedelta(seconds=90)},
        "": {},
    }.items():
        box.add(uid, **changes)  # type: ignore[arg-type]
    registry = registry_of(tmp_path, {"box": box})
    runs = await runs_of(temporal_client)
    async with serving(temporal_client, registry, connection, collecting(registry, connection, kubectl.namespace)):
        first = await runs.sweep()
        assert first.deleted == 0
        assert first.providers["box"].spared == {
            "foreign": 1,
            "no-uid": 1,
            "live": 1,
            "unmarked": 1,
            "young": 1,
            "seen-once": 1,
        }
        at_once = await runs.sweep()
        assert (at_once.deleted, box.deleted) == (0, [])
        await pause(HALF)
        last = await runs.sweep()
        history = await temporal_client.get_workflow_handle(runs.seen[-1]).fetch_history()

    assert (last.deleted, last.providers["box"].outcomes) == (1, {"id-orphan 1": DELETED})
    assert box.deleted == [("id-orphan", "1")]
    scheduled = [event for event in history.events if event.event_type == EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED]
    summaries = [event.user_metadata.summary.data for event in scheduled]
    assert b'"box: id-orphan 1"' in summaries, "the deletion names its instance in the Temporal UI"
    assert sum(event.ByteSize() for event in history.events) < 10_000
    await Replayer(workflows=[OrphanGC], workflow_runner=RUNNER).replay_workflow(history)
    await registry.close()


async def test_a_dry_run_and_the_cap(
    temporal_client: Client, connection: ClusterConnection, kubectl: Kubectl, tmp_path: Path
) -> None:
    box = SweptProvider()
    for number in range(5):
        box.add(f"u{number}")
    registry = registry_of(tmp_path, {"box": box})
    runs = await runs_of(temporal_client, dry_run=True, max_deletes=2)
    async with serving(temporal_client, registry, connection, collecting(registry, connection, kubectl.namespace)):
        await runs.sweep()
        await pause(HALF)
        shown = await runs.sweep()
        assert shown.dry_run
        assert list(shown.providers["box"].outcomes.values()) == [WOULD_DELETE, WOULD_DELETE]
        assert (shown.deleted, box.deleted) == (0, [])
        real = await runs_of(temporal_client, max_deletes=2)
        real.seen = runs.seen
        swept = await real.sweep()
    assert (swept.deleted, len(box.deleted)) == (2, 2)
    assert swept.providers["box"].spared == {"over-the-cap": 3}
    await registry.close()


async def test_one_broken_provider_and_one_without_a_worker_stop_nobody(
    temporal_client: Client, connection: ClusterConnection, kubectl: Kubectl, tmp_path: Path
) -> None:
    good, broken, away = SweptProvider(), SweptProvider(), SweptProvider()
    for box in (good, broken, away):
        box.add("orphan")
    broken.failure = TransientError("page 3 could not be read")
    registry = registry_of(tmp_path, {"broken": broken, "away": away, "good": good}, ["", "nobody-serves-this", ""])
    runs = await runs_of(temporal_client)
    async with serving(temporal_client, registry, connection, collecting(registry, connection, kubectl.namespace)):
        await runs.sweep()
        report = await runs.sweep()
        assert report.deleted == 1
        assert (
            "page 3 could not be read" in report.providers["broken"].error
            or "Timeout" in report.providers["broken"].error
        )
        assert report.providers["away"].error == "NoWorker: no worker serves task queue nobody-serves-this"
        assert [box.deleted for box in (good, broken, away)] == [[("id-orphan", "1")], [], []]
        broken.failure = None
        # What the provider had while it was broken was never seen: two sweeps are due again.
        assert (await runs.sweep()).deleted == 0
        assert (await runs.sweep()).deleted == 1
    assert broken.deleted == [("id-orphan", "1")]
    await registry.close()


async def test_a_stuck_run_keeps_only_the_runs_of_its_own_time_away(
    temporal_client: Client, connection: ClusterConnection, kubectl: Kubectl, tmp_path: Path
) -> None:
    box = SweptProvider()
    box.gate.clear()
    registry = registry_of(tmp_path, {"box": box})
    runs = await runs_of(temporal_client, interval=timedelta(seconds=3))
    async with serving(temporal_client, registry, connection, collecting(registry, connection, kubectl.namespace)):
        stuck = await runs.start()
        handle = temporal_client.get_schedule_handle(names.ORPHAN_GC_ID)
        await handle.trigger()
        assert await ended(stuck) in (WorkflowExecutionStatus.FAILED, WorkflowExecutionStatus.TIMED_OUT)
        assert (await handle.describe()).info.num_actions_skipped_overlap == 1
        box.gate.set()
        assert (await runs.sweep()).providers["box"].error == ""
    await registry.close()


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[tuple[ScriptedApi, ClusterConnection]]:
    async with contextlib.AsyncExitStack() as cleanup:
        scripted = await cleanup.enter_async_context(ScriptedApi(tmp_path))
        connection = await ClusterConnection.connect(scripted.kubeconfig)
        cleanup.push_async_callback(connection.close)
        yield scripted, connection


async def refused_sweep(runs: Runs) -> None:
    with pytest.raises(WorkflowFailureError) as refused:
        await (await runs.start()).result()
    assert isinstance(refused.value.cause, ApplicationError)
    assert refused.value.cause.type == LIST_FAILED


async def test_while_the_api_server_is_down_every_run_refuses_and_confirms_nothing(
    temporal_client: Client, api: tuple[ScriptedApi, ClusterConnection], tmp_path: Path
) -> None:
    scripted, connection = api
    box = SweptProvider()
    box.add("orphan")
    registry = registry_of(tmp_path, {"box": box})

    async def down(_request: web.Request) -> web.Response:
        return refusal(503)

    up = scripted.on_list
    runs = await runs_of(temporal_client, interval=timedelta(seconds=4))
    async with serving(temporal_client, registry, connection, collecting(registry, connection, "")):
        assert (await runs.sweep()).providers["box"].spared == {"seen-once": 1}
        began = asyncio.get_running_loop().time()
        scripted.on_list = down
        await refused_sweep(runs)
        await refused_sweep(runs)
        await pause(max(0.0, 10.5 - (asyncio.get_running_loop().time() - began)))
        scripted.on_list = up
        again = await runs.sweep()
        assert (again.deleted, again.providers["box"].spared) == (0, {"seen-once": 1})
        await pause(2.1)
        assert (await runs.sweep()).deleted == 1
    await registry.close()


async def test_a_page_that_fails_ends_the_sweep_with_nothing_deleted(
    temporal_client: Client, api: tuple[ScriptedApi, ClusterConnection], tmp_path: Path
) -> None:
    scripted, connection = api
    box = SweptProvider()
    box.add("orphan")
    registry = registry_of(tmp_path, {"box": box})

    async def third_page_fails(request: web.Request) -> web.Response:
        token = request.query.get("continue", "")
        return refusal(500) if token == "3" else page("7", f"p{token}", token=str(int(token or 1) + 1))

    up = scripted.on_list
    runs = await runs_of(temporal_client)
    async with serving(temporal_client, registry, connection, collecting(registry, connection, "")):
        await runs.sweep()
        await pause(HALF)
        scripted.on_list = third_page_fails
        await refused_sweep(runs)
        assert box.deleted == []
        scripted.on_list = up
    await registry.close()


async def test_an_empty_list_once_deletes_nothing(
    temporal_client: Client, api: tuple[ScriptedApi, ClusterConnection], tmp_path: Path
) -> None:
    scripted, connection = api
    box = SweptProvider()
    for number in range(20):
        box.add(f"uid-p{number}")
    registry: ProviderRegistry = registry_of(tmp_path, {"box": box})

    async def all_there(_request: web.Request) -> web.Response:
        return page("7", *(f"p{number}" for number in range(20)))

    empty = scripted.on_list
    runs = await runs_of(temporal_client)
    async with serving(temporal_client, registry, connection, collecting(registry, connection, "")):
        for answer in (all_there, empty, all_there, empty):
            scripted.on_list = answer
            assert (await runs.sweep()).deleted == 0
            await pause(HALF)
    assert box.deleted == []
    await registry.close()


@workflow.defn(name="OrphanGC", sandboxed=False)
class AnotherVersion:
    """Returns what no version here reads."""

    @workflow.run
    async def run(self, _settings: SweepSettings) -> dict[str, object]:
        return {"finished": "yesterday", "providers": ["box"]}


async def test_a_result_of_another_version_confirms_nothing_and_stops_nothing(
    temporal_client: Client, connection: ClusterConnection, kubectl: Kubectl, tmp_path: Path
) -> None:
    box = SweptProvider()
    box.add("orphan")
    registry = registry_of(tmp_path, {"box": box})
    runs = await runs_of(temporal_client)
    worker = Worker(temporal_client, task_queue=names.QUEUE_CONTROL, workflows=[AnotherVersion], workflow_runner=RUNNER)
    async with worker:
        await (await runs.start()).result()
    async with serving(temporal_client, registry, connection, collecting(registry, connection, kubectl.namespace)):
        assert (await runs.sweep()).providers["box"].spared == {"seen-once": 1}
        await pause(HALF)
        assert (await runs.sweep()).deleted == 1
    await registry.close()


async def test_a_worker_that_asks_another_api_server_deletes_nothing(
    temporal_client: Client,
    connection: ClusterConnection,
    api: tuple[ScriptedApi, ClusterConnection],
    kubectl: Kubectl,
    tmp_path: Path,
) -> None:
    """To a worker at the edge with the wrong kubeconfig, every instance is an orphan."""
    _, elsewhere = api
    box = SweptProvider()
    live = await asyncio.to_thread(uid_of, kubectl, "live")
    for uid in (live, "orphan"):
        box.add(uid)
    registry = registry_of(tmp_path, {"box": box})
    runs = await runs_of(temporal_client)
    mistaken = collecting(registry, elsewhere, "")[:2]
    right = collecting(registry, connection, kubectl.namespace)[2:]
    async with serving(temporal_client, registry, connection, [*mistaken, *right]):
        await runs.sweep()
        await pause(HALF)
        report = await runs.sweep()
    assert report.providers["box"].outcomes == {f"id-{live} 1": OWNED, "id-orphan 1": DELETED}
    assert box.deleted == [("id-orphan", "1")]
    await registry.close()


async def test_what_cannot_be_deleted_holds_up_no_other(
    temporal_client: Client, connection: ClusterConnection, kubectl: Kubectl, tmp_path: Path
) -> None:
    box = SweptProvider()
    box.add("stuck", age=timedelta(days=1))
    box.add("other")
    registry = registry_of(tmp_path, {"box": box})

    def stuck() -> None:
        if len(tries) < 3:
            tries.append("stuck")
            raise PermanentError("it will not go")

    tries: list[str] = []
    box.before_delete = stuck
    runs = await runs_of(temporal_client, max_deletes=1)
    async with serving(temporal_client, registry, connection, collecting(registry, connection, kubectl.namespace)):
        tried: list[str] = []
        for _ in range(3):
            report = await runs.sweep()
            tried += report.providers["box"].outcomes
            await pause(HALF)
    assert tried == ["id-stuck 1", "id-other 1"]
    await registry.close()
