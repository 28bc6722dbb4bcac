"""An instance that reaches its maximum age is replaced, and only that one."""

import asyncio
import dataclasses
from datetime import UTC, datetime, timedelta

from temporalio.client import Client

from model import proxy_replacement
from model.proxy_state import InstanceRecord, ProxyState
from tests.e2e.polling import eventually
from tests.workflows.proxy_changes import edit, is_ready, ready, times
from tests.workflows.proxy_world import World, managed, poke, running_world, start


async def is_at(world: World, incarnation: str) -> bool:
    return await is_ready(world) and world.proxy is not None and world.proxy.status.incarnation == incarnation


async def settles_at(world: World, incarnation: str) -> None:
    """Until that incarnation is Ready, and a while longer, in which nothing may happen to it."""
    await eventually(lambda: is_at(world, incarnation))
    await asyncio.sleep(1.5)
    assert await is_at(world, incarnation)


def removed(world: World) -> list[str]:
    return [removal.incarnation for removal in world.removals]


def age_of(incarnation: str, maximum: int) -> float:
    """Seconds after which that incarnation is replaced."""
    record = InstanceRecord(provider_id="box/1", incarnation=incarnation, created_at=1.0)
    proxy = managed()
    aged = dataclasses.replace(proxy, spec=dataclasses.replace(proxy.spec, max_age_seconds=maximum))
    at = proxy_replacement.replace_at(ProxyState(namespace="ns", name="n", uid="uid-1", instance=record), aged)
    assert at is not None
    return at - 1.0


async def test_age_wakes_a_resting_workflow_once(temporal_client: Client) -> None:
    world = World(managed())
    edit(world, max_age_seconds=3600)
    due = datetime.now(UTC) + timedelta(seconds=4)
    world.born = lambda: due - timedelta(seconds=age_of("i1", 3600))
    async with ready(temporal_client, world) as handle:
        rested = (await handle.describe()).history_length
        world.born = lambda: datetime.now(UTC)
        if datetime.now(UTC) < due - timedelta(seconds=1):
            assert "remove_instance" not in world.calls
        await eventually(lambda: is_at(world, "i2"))
        begun = [status.condition("Provisioned") for status in world.statuses]
        assert ("Replacing", "it reached its maximum age") in {
            (found.reason, found.message) for found in begun if found is not None
        }
        assert datetime.now(UTC) >= due
        await asyncio.sleep(2)
        assert removed(world) == ["i1"]
        assert (await handle.describe()).history_length < rested + 110


async def test_a_maximum_that_is_edited_takes_effect_at_once(temporal_client: Client) -> None:
    world = World(managed())
    world.born = lambda: datetime.now(UTC) - timedelta(seconds=100)
    async with ready(temporal_client, world) as handle:
        edit(world, max_age_seconds=3600)
        await handle.signal("changed", poke(world.fingerprint))
        await settles_at(world, "i1")
        world.born = lambda: datetime.now(UTC)
        edit(world, max_age_seconds=60)
        await handle.signal("changed", poke(world.fingerprint))
        await settles_at(world, "i2")
        edit(world, max_age_seconds=None)
        await handle.signal("changed", poke(world.fingerprint))
        await settles_at(world, "i2")


async def test_an_instance_that_is_too_old_when_it_comes_is_no_hot_loop(temporal_client: Client) -> None:
    world = World(managed())
    edit(world, max_age_seconds=60)
    world.born = lambda: datetime.now(UTC) - timedelta(hours=1)
    async with running_world(temporal_client, world):
        handle = await start(temporal_client)
        await eventually(lambda: times(world, "remove_instance"))
        await asyncio.sleep(4)
        assert world.calls.count("create_instance") == 1
        await handle.terminate()
