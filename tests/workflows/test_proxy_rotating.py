"""Another instance by hand: exactly one for each time it is asked for."""

import asyncio
from typing import Any

import pytest
from temporalio.client import Client

from model.instance import InstanceState
from model.proxy import Proxy
from tests.e2e.polling import eventually
from tests.workflows.proxy_changes import annotate, edit, is_ready, ready, times
from tests.workflows.proxy_world import World, external, managed, poke, running_world, start


async def is_at(world: World, incarnation: str) -> bool:
    return await is_ready(world) and world.proxy is not None and world.proxy.status.incarnation == incarnation


async def settles_at(world: World, incarnation: str) -> None:
    """Until that incarnation is Ready, and a while longer, in which nothing may happen to it."""
    await eventually(lambda: is_at(world, incarnation))
    await asyncio.sleep(1.5)
    assert await is_at(world, incarnation)


def removed(world: World) -> list[str]:
    return [removal.incarnation for removal in world.removals]


@pytest.mark.parametrize("arguments", [[], [1], [{"a": "b"}], ["x", "y"]])
async def test_a_signal_with_any_input_makes_one_other_instance(temporal_client: Client, arguments: list[Any]) -> None:
    world = World(managed())
    async with ready(temporal_client, world) as handle:
        await handle.signal("rotate", args=arguments)
        await settles_at(world, "i2")
        assert removed(world) == ["i1"]


async def test_an_annotation_is_handled_in_the_write_that_begins_the_replacement(temporal_client: Client) -> None:
    world = World(managed())
    async with ready(temporal_client, world) as handle:
        world.hold_removals.clear()
        annotate(world, rotate="tuesday")
        await handle.signal("changed", poke(world.fingerprint))
        await eventually(lambda: times(world, "remove_instance"))
        handled = [status for status in world.statuses if status.handled_rotate == "tuesday"]
        begun = handled[0].condition("Provisioned")
        assert begun is not None
        assert (begun.reason, begun.message) == ("Replacing", "a rotation was asked for")
        assert handled[0].incarnation == "i1"
        assert world.calls.index("remove_instance") > world.calls.index("write_status")
        world.hold_removals.set()
        await settles_at(world, "i2")

        for value in ("tuesday", "wednesday"):
            annotate(world, rotate=value)
            await handle.signal("changed", poke(world.fingerprint))
        await settles_at(world, "i3")
        assert removed(world) == ["i1", "i2"]


@pytest.mark.parametrize("of", [managed(), external()], ids=["managed", "external"])
async def test_a_value_that_is_there_at_first_sight_counts_as_handled(temporal_client: Client, of: Proxy) -> None:
    world = World(of)
    annotate(world, rotate="old")
    async with ready(temporal_client, world) as handle:
        await handle.signal("changed", poke("other"))
        await asyncio.sleep(1)
        assert world.proxy is not None
        assert world.proxy.status.handled_rotate == "old"
        assert world.calls.count("create_instance") == (1 if of.spec.managed else 0)


async def test_an_external_proxy_has_nothing_to_rotate(temporal_client: Client) -> None:
    world = World(external())
    async with ready(temporal_client, world) as handle:
        tells = len(world.tells)
        annotate(world, rotate="1")
        await handle.signal("changed", poke(world.fingerprint))
        await handle.signal("rotate")

        async def handled() -> str:
            return world.proxy.status.handled_rotate if world.proxy is not None else ""

        await eventually(handled, lambda value: value == "1")
        assert (await is_ready(world), len(world.tells)) == (True, tells)


@pytest.mark.parametrize("by", ["signal", "annotation"])
async def test_asked_for_while_the_instance_is_being_made_there_is_nothing_to_rotate(
    temporal_client: Client, by: str
) -> None:
    world = World(managed())
    world.hold_creates.clear()
    async with running_world(temporal_client, world):
        handle = await start(temporal_client)
        await eventually(lambda: times(world, "create_instance"))
        if by == "signal":
            await handle.signal("rotate")
        else:
            reads = world.reads
            annotate(world, rotate="1")
            await handle.signal("changed", poke(world.fingerprint))

            async def read_again() -> bool:
                return world.reads > reads

            await eventually(read_again)
        world.hold_creates.set()
        await settles_at(world, "i1")
        await handle.terminate()


@pytest.mark.parametrize("by", ["signal", "annotation"])
@pytest.mark.parametrize("drain", [0, 60])
async def test_a_second_rotation_while_the_first_runs_is_one_more(temporal_client: Client, by: str, drain: int) -> None:
    world = World(managed())
    edit(world, drain_seconds=drain)
    held = world.hold_drains if drain else world.hold_removals
    async with ready(temporal_client, world) as handle:
        held.clear()
        await handle.signal("rotate")
        await eventually(lambda: times(world, "drain_proxy" if drain else "remove_instance"))
        for value in ("1", "2"):
            if by == "signal":
                await handle.signal("rotate")
            else:
                annotate(world, rotate=value)
                await handle.signal("changed", poke(world.fingerprint))
        await asyncio.sleep(0.5)
        held.set()
        await settles_at(world, "i3")
        assert removed(world) == ["i1", "i2"]


@pytest.mark.parametrize("by", ["signal", "annotation"])
@pytest.mark.parametrize("wiped", [False, True])
async def test_once_begun_it_is_finished_by_whoever_comes_next(temporal_client: Client, by: str, wiped: bool) -> None:
    world = World(managed())
    async with running_world(temporal_client, world):
        handle = await start(temporal_client)
        await eventually(lambda: is_at(world, "i1"))
        world.hold_removals.clear()
        if by == "signal":
            await handle.signal("rotate")
        else:
            annotate(world, rotate="1")
            await handle.signal("changed", poke(world.fingerprint))
        await eventually(lambda: times(world, "remove_instance"))
        await handle.terminate()
        if wiped:
            # Not even the fingerprint of the annotation is left.
            world.fingerprint = "from another life"
        # The activity that was held belongs to a workflow that is no more; its effect does not take place.
        world.after_removal = lambda: None
        await asyncio.sleep(1)
        world.hold_removals.set()
        handle = await start(temporal_client, world.fingerprint)
        await eventually(lambda: is_at(world, "i2"))
        await asyncio.sleep(1.5)
        assert await is_at(world, "i2")
        assert set(removed(world)) == {"i1"}
        await handle.terminate()


async def test_an_instance_that_is_found_gone_has_been_rotated(temporal_client: Client) -> None:
    world = World(managed())
    async with ready(temporal_client, world) as handle:
        world.hold_looks.clear()
        await handle.signal("changed", poke("", look=True))
        await eventually(lambda: times(world, "look_for_instance"), lambda count: count == 2)
        annotate(world, rotate="1")
        await handle.signal("changed", poke(world.fingerprint))
        await asyncio.sleep(0.5)
        world.instance = None
        world.hold_looks.set()
        await settles_at(world, "i2")
        assert removed(world) == []
        assert world.proxy is not None
        assert world.proxy.status.handled_rotate == "1"


async def test_what_is_coming_is_rotated_too(temporal_client: Client) -> None:
    world = World(managed())
    world.created_as = InstanceState.COMING
    async with running_world(temporal_client, world):
        handle = await start(temporal_client)
        await eventually(lambda: _coming(world))
        world.created_as = InstanceState.RUNNING
        await handle.signal("rotate")
        await eventually(lambda: is_at(world, "i2"))
        assert removed(world) == ["i1"]
        await handle.terminate()


async def _coming(world: World) -> bool:
    return world.proxy is not None and world.proxy.status.incarnation == "i1"
