"""Another look before each deletion, and proof after it."""

import asyncio
import dataclasses
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from prometheus_client import CollectorRegistry
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

import activities.collection
from activities.collection import CollectionActivities, CollectionMetrics
from cluster.connection import ClusterConnection
from cluster.live_proxies import LiveProxies
from model.collection_messages import ALREADY_GONE, DELETED, CollectOrphan, Orphan, OrphanQuery, SweepSettings
from model.instance import Instance
from tests.cluster.scripted_api import ScriptedApi, item, page, refusal
from tests.providers.swept import SweptProvider, registry_of

SETTINGS = SweepSettings(minimum_age_seconds=60)


class World:
    def __init__(self, scripted: ScriptedApi, connection: ClusterConnection, directory: Path) -> None:
        self.scripted, self.connection = scripted, connection
        self.box = SweptProvider()
        self.registry = registry_of(directory, {"box": self.box})
        self.metrics = CollectorRegistry()

    def activities(self, namespace: str = "", **options: Any) -> CollectionActivities:
        live = LiveProxies(self.connection, namespace)
        self.metrics = CollectorRegistry()
        return CollectionActivities(self.registry, live, "ours", CollectionMetrics(self.metrics), **options)

    def shows(self, *proxies: dict[str, Any]) -> None:
        async def on_list(_request: web.Request) -> web.Response:
            return web.json_response({"kind": "List", "metadata": {"resourceVersion": "1"}, "items": list(proxies)})

        self.scripted.on_list = on_list

    async def collect(self, instance: Instance) -> str:
        orphan = Orphan(provider_id=instance.provider_id, incarnation=instance.incarnation, uid=instance.uid)
        collect = CollectOrphan(provider="box", orphan=orphan, settings=SETTINGS, at=time.time())
        return await ActivityEnvironment().run(self.activities().collect_orphan, collect)


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with AsyncExitStack() as cleanup:
        scripted = await cleanup.enter_async_context(ScriptedApi(tmp_path))
        connection = await ClusterConnection.connect(scripted.kubeconfig)
        cleanup.push_async_callback(connection.close)
        yield World(scripted, connection, tmp_path)


async def test_an_orphan_is_deleted_by_its_incarnation_and_counted(world: World) -> None:
    assert await world.collect(world.box.add("u")) == DELETED
    assert world.box.deleted == [("id-u", "1")]
    assert world.metrics.get_sample_value("proxy_operator_gc_deleted_total", {"provider": "box"}) == 1


async def test_a_proxy_that_turns_up_saves_its_instance(world: World) -> None:
    world.shows(item("late"))
    assert await world.collect(world.box.add("uid-late")) == "spared: live"
    assert world.box.deleted == []


async def test_a_list_that_fails_now_saves_the_instance(world: World) -> None:
    async def down(_request: web.Request) -> web.Response:
        return refusal(500)

    world.scripted.on_list = down
    with pytest.raises(ApplicationError):
        await world.collect(world.box.add("u"))
    assert world.box.deleted == []


async def test_another_incarnation_and_one_that_is_gone_are_left_alone(world: World) -> None:
    seen = world.box.add("u")
    world.box.instances["id-u"] = dataclasses.replace(seen, incarnation="2")
    assert await world.collect(seen) == ALREADY_GONE
    world.box.instances.clear()
    assert await world.collect(seen) == ALREADY_GONE
    assert world.box.deleted == []


async def test_marks_that_changed_meanwhile_save_the_instance(world: World) -> None:
    seen = world.box.add("u")
    world.box.instances["id-u"] = dataclasses.replace(seen, installation="theirs")
    assert await world.collect(seen) == "spared: foreign"
    assert world.box.deleted == []


async def test_the_second_instance_of_a_proxy_goes_only_while_the_recorded_one_is_there(world: World) -> None:
    recorded = world.box.add("uid-a")
    second = dataclasses.replace(recorded, provider_id="id-elsewhere", incarnation="9")
    world.box.instances[second.provider_id] = second
    status = {"providerID": recorded.provider_id, "incarnation": recorded.incarnation}
    world.shows(item("a") | {"spec": {"provider": "box"}, "status": status})
    del world.box.instances[recorded.provider_id]
    assert await world.collect(second) == "spared: live"
    world.box.instances[recorded.provider_id] = recorded
    assert await world.collect(recorded) == "spared: live"
    assert await world.collect(second) == DELETED
    assert world.box.deleted == [("id-elsewhere", "9")]


async def test_an_attempt_that_died_in_the_middle_is_completed_by_the_next(world: World) -> None:
    orphan = world.box.add("u")
    reached = asyncio.Event()
    world.box.before_delete = reached.set
    world.box.gate.clear()
    first = asyncio.create_task(world.collect(orphan))
    world.box.gate.set()
    await reached.wait()
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    assert await world.collect(orphan) in (DELETED, ALREADY_GONE)
    assert world.box.deleted == [("id-u", "1")]


async def test_an_instance_that_does_not_go_is_reported(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(activities.collection, "_GONE_SECONDS", 0.0)
    orphan = world.box.add("u")

    async def taken_but_slow(_provider_id: str, _incarnation: str) -> None:
        return

    monkeypatch.setattr(world.box, "delete", taken_but_slow)
    with pytest.raises(ApplicationError, match="id-u is still being deleted"):
        await world.collect(orphan)
    assert world.metrics.get_sample_value("proxy_operator_gc_deleted_total", {"provider": "box"}) is None


async def test_the_instances_are_listed_before_the_proxies(world: World) -> None:
    """A create that begins between the two lists must not look like an orphan."""

    async def on_list(_request: web.Request) -> web.Response:
        assert world.box.lists == 1
        world.box.add("made-meanwhile")
        return page("1")

    world.scripted.on_list = on_list
    query = OrphanQuery(provider="box", settings=SETTINGS, at=time.time())
    found = await ActivityEnvironment().run(world.activities().find_orphans, query)
    assert (found.instances, found.candidates) == (0, {})


async def test_a_worker_that_sees_one_namespace_refuses_unless_told_otherwise(world: World) -> None:
    world.box.add("u", age=timedelta(hours=1))
    query = OrphanQuery(provider="box", settings=SETTINGS, at=time.time())
    with pytest.raises(ApplicationError, match=r"only the Proxies of namespace team-a.*--gc-allow-namespaced"):
        await ActivityEnvironment().run(world.activities("team-a").find_orphans, query)
    allowed = world.activities("team-a", allow_namespaced=True)
    assert (await ActivityEnvironment().run(allowed.find_orphans, query)).spared == {"seen-once": 1}


async def test_a_uid_that_changed_meanwhile_saves_the_instance(world: World) -> None:
    """What was seen twice as an orphan is another Proxy's now."""
    seen = world.box.add("u")
    world.box.instances["id-u"] = dataclasses.replace(seen, uid="another")
    assert await world.collect(seen) == ALREADY_GONE
    assert world.box.deleted == []


async def test_uids_are_looked_up_in_a_complete_list_only(world: World) -> None:
    world.shows(item("a"))
    found = await ActivityEnvironment().run(world.activities().existing_uids, ["uid-a", "gone"])
    assert found == ["uid-a"]
    with pytest.raises(ApplicationError, match="sees only the Proxies of namespace"):
        await ActivityEnvironment().run(world.activities("team-a").existing_uids, ["gone"])
