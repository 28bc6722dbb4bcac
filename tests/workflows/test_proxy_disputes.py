"""Parts that contradict each other all the time: a proxy waits then, says so, and goes on when they agree."""

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable

import pytest
from temporalio import activity
from temporalio.client import Client
from temporalio.exceptions import ApplicationError

from model import messages
from tests.e2e.polling import eventually
from tests.workflows.proxy_changes import annotate, condition, edit, is_gone, is_ready, ready
from tests.workflows.proxy_world import World, managed, poke, running_world, start

_MOST_CALLS = 4
"""Of one activity in some seconds, the tries that follow at once included."""


class StubbornFinalizers(World):
    """Somebody takes every finalizer off at once, or keeps them all."""

    agrees = False

    @activity.defn
    async def add_finalizer(self, reference: messages.ProxyReference) -> messages.ProxyReading:
        if self.agrees and self.proxy is not None:
            self.proxy = dataclasses.replace(self.proxy, finalizers=managed().finalizers)
        return await super().add_finalizer(reference)

    @activity.defn
    async def release_finalizers(self, reference: messages.ProxyReference) -> bool:
        if self.agrees:
            return await super().release_finalizers(reference)
        await self._called("release_finalizers")
        return True


class AnotherView(World):
    """Activities that write or remove find another object than the one that is read."""

    def __init__(self) -> None:
        super().__init__(managed())
        self.disputed: set[str] = set()

    @activity.defn
    async def record_spec_hash(self, write: messages.SpecHashWrite) -> bool:
        await self._called("record_spec_hash")
        return "record_spec_hash" not in self.disputed and await super().record_spec_hash(write)

    @activity.defn
    async def write_status(self, write: messages.StatusWrite) -> bool:
        if "write_status" in self.disputed:
            await self._called("write_status")
            return False
        return await super().write_status(write)

    @activity.defn
    async def remove_instance(self, remove: messages.RemoveInstance) -> bool:
        if "remove_instance" in self.disputed:
            await self._called("remove_instance")
            return False
        return await super().remove_instance(remove)

    @activity.defn
    async def create_instance(self, create: messages.CreateInstance) -> messages.InstanceAnswer:
        if "create_instance" in self.disputed:
            await self._called("create_instance")
            raise ApplicationError("gone or recreated", "", 1, type="ObjectChanged", non_retryable=True)
        return await super().create_instance(create)


async def is_calm(world: World, what: str, begin: Callable[[], Awaitable[object]]) -> None:
    """Some seconds go by in which an activity is called, and not often."""
    before, reads = world.calls.count(what), world.reads
    await begin()
    await eventually(lambda: _more(world, what, before))
    await asyncio.sleep(4)
    assert world.calls.count(what) - before <= _MOST_CALLS
    assert world.reads - reads <= 3 * _MOST_CALLS


async def _more(world: World, what: str, than: int) -> bool:
    return world.calls.count(what) > than


async def test_a_finalizer_that_does_not_stay_on(temporal_client: Client) -> None:
    world = StubbornFinalizers(managed(finalizers=()))
    async with running_world(temporal_client, world):
        handle = await start(temporal_client)
        await is_calm(world, "add_finalizer", lambda: asyncio.sleep(0))
        assert "finalizer" in condition(world).message
        assert "create_instance" not in world.calls
        world.agrees = True
        await handle.signal("retry")
        await eventually(lambda: is_ready(world))
        await eventually(lambda: _message(world), lambda text: not text)
        await handle.terminate()


async def test_a_finalizer_that_does_not_come_off(temporal_client: Client) -> None:
    world = StubbornFinalizers(managed())
    async with ready(temporal_client, world) as handle:
        edit(world, deleting=True)
        await is_calm(world, "release_finalizers", lambda: handle.signal("changed", poke(world.fingerprint)))
        assert "finalizer" in condition(world).message
        assert condition(world).status == "False"
        world.agrees = True
        await handle.signal("retry")
        await eventually(lambda: is_gone(world))


@pytest.mark.parametrize("what", ["create_instance", "record_spec_hash", "write_status"])
async def test_an_object_that_others_do_not_find_is_not_made_in_a_hot_loop(temporal_client: Client, what: str) -> None:
    world = AnotherView()
    world.disputed.add(what)
    async with running_world(temporal_client, world):
        handle = await start(temporal_client)
        await is_calm(world, what, lambda: asyncio.sleep(0))
        if what != "write_status":
            assert "another object" in condition(world).message
        world.disputed.clear()
        await handle.signal("retry")
        await eventually(lambda: is_ready(world))
        await eventually(lambda: _message(world), lambda text: not text)
        await handle.terminate()


@pytest.mark.parametrize("deleted", [False, True])
async def test_an_object_that_others_do_not_find_is_not_removed_in_a_hot_loop(
    temporal_client: Client, deleted: bool
) -> None:
    world = AnotherView()
    async with ready(temporal_client, world) as handle:
        world.disputed.add("remove_instance")
        if deleted:
            edit(world, deleting=True)
        else:
            annotate(world, rotate="1")
        await is_calm(world, "remove_instance", lambda: handle.signal("changed", poke(world.fingerprint)))
        assert "another object" in condition(world).message
        assert "create_instance" not in world.calls[world.calls.index("remove_instance") :]
        world.disputed.clear()
        await handle.signal("retry")
        await eventually(lambda: is_gone(world) if deleted else _is_at(world, "i2"))


async def _is_at(world: World, incarnation: str) -> bool:
    return await is_ready(world) and world.proxy is not None and world.proxy.status.incarnation == incarnation


async def _message(world: World) -> str:
    return condition(world).message
