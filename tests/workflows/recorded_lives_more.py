"""More paths of a ProxyWorkflow whose histories are saved: instances that end, objects that change, long lives."""

import asyncio
import dataclasses

from temporalio.client import Client

from model.instance import InstanceState
from tests.e2e.polling import eventually
from tests.workflows.proxy_changes import annotate, condition, edit, is_gone, is_ready, ready, times
from tests.workflows.proxy_world import managed, poke, running_world, start
from tests.workflows.recorded_lives import WITHIN, Handle, delete, poked, refusal, says, settles_at, world_of


async def stopped(client: Client) -> list[Handle]:
    """An instance that stopped is replaced, and one that is gone made again."""
    world = world_of(managed())
    async with ready(client, world) as handle:
        assert world.instance is not None
        world.instance = dataclasses.replace(world.instance, state=InstanceState.STOPPED, ip="")
        await handle.signal("changed", poke("", look=True))
        await settles_at(world, "i2")
        world.instance = None
        await handle.signal("changed", poke("", look=True))
        await settles_at(world, "i3")
        await delete(world, handle)
        return [handle]


async def dies_at_start(client: Client) -> list[Handle]:
    """An instance that ends before a probe passed is not made again at once, unless somebody says so."""
    world = world_of(managed())
    world.created_as = InstanceState.STOPPED
    async with running_world(client, world):
        handle = await start(client)

        async def waits() -> bool:
            return "waits" in condition(world).message

        await eventually(waits, within=WITHIN)
        world.created_as = InstanceState.RUNNING
        creates = world.calls.count("create_instance")
        await handle.signal("retry")
        await eventually(lambda: times(world, "create_instance"), lambda count: count > creates, within=WITHIN)
        await eventually(lambda: is_ready(world), within=WITHIN)
        await delete(world, handle)
        return [handle]


async def recreated(client: Client) -> list[Handle]:
    """Another object of the same name: the former's instance goes first, with a failure on the way."""
    world = world_of(managed())
    async with ready(client, world) as handle:
        world.errors["remove_instance"] = refusal("TransientError", "busy")
        world.proxy, world.fingerprint = managed("uid-2"), "recreated"
        await handle.signal("changed", poke("recreated", uid="uid-2"))
        await says(world, "Replacing")
        world.errors = {}
        await handle.signal("retry")
        await eventually(lambda: is_ready(world), within=WITHIN)
        await delete(world, handle)
        return [handle]


async def skipped_cleanup(client: Client) -> list[Handle]:
    """A deletion that cannot be done, and is skipped."""
    world = world_of(managed())
    async with ready(client, world) as handle:
        world.hold_removals.clear()
        edit(world, deleting=True)
        await poked(world, handle)
        await eventually(lambda: times(world, "remove_instance"))
        annotate(world, skip_cleanup="true")
        await poked(world, handle)
        await eventually(lambda: is_gone(world), within=WITHIN)
        await handle.result()
        return [handle]


async def create_under_way(client: Client) -> list[Handle]:
    """Deleted while it is being made: the create is awaited, then undone."""
    world = world_of(managed())
    world.hold_creates.clear()
    async with running_world(client, world):
        handle = await start(client)
        await eventually(lambda: times(world, "create_instance"))
        edit(world, deleting=True)
        await poked(world, handle)

        async def under_way() -> bool:
            return condition(world).message == "a create is under way"

        await eventually(under_way)
        world.hold_creates.set()
        await eventually(lambda: is_gone(world), within=WITHIN)
        await handle.result()
        return [handle]


async def leases(client: Client) -> list[Handle]:
    """A broker that has something newer, then no room, then room; a status that cannot be written at first."""
    world = world_of(managed())
    world.newer_order = (2**52, 41)
    world.broker_is_full = True
    async with running_world(client, world):
        handle = await start(client)
        await says(world, "LeaseBrokerFull", "Ready")
        world.broker_is_full = False
        world.fingerprint = "again"
        await poked(world, handle)
        await says(world, "Ready", "Ready")
        await delete(world, handle)
        return [handle]


async def long_life(client: Client) -> list[Handle]:
    """Runs that continue as new, in the middle of a drain too; needs a server that suggests it early."""
    world = world_of(managed())
    edit(world, drain_seconds=120)
    world.hold_drains.clear()
    async with running_world(client, world):
        handle = await start(client)
        await eventually(lambda: is_ready(world))
        world.spec_hash = "v1-bbbb"
        edit(world, port=3129)
        await poked(world, handle)
        await eventually(lambda: times(world, "drain_proxy"))
        first = (await handle.describe()).run_id
        latest = client.get_workflow_handle(handle.id)
        while (await latest.describe()).run_id == first:
            world.fingerprint += "+"
            await poked(world, latest)
            await asyncio.sleep(0.1)
        world.hold_drains.set()
        await settles_at(world, "i2")
        await delete(world, latest)
        return [latest]
