"""What a Proxy says of itself while one step follows the other, and what it never says."""

import asyncio
import dataclasses
from datetime import timedelta

import pytest
from temporalio import activity
from temporalio.client import Client

from model import messages
from model.instance import InstanceState
from model.proxy import Condition
from tests.e2e.polling import eventually
from tests.workflows.proxy_changes import annotate, condition, edit, is_ready, ready, times
from tests.workflows.proxy_world import World, managed, poke, running_world, start
from tests.workflows.test_proxy_faults import failure


def draining(seconds: int = 60) -> World:
    """A world whose replaced instance has leases that do not end by themselves."""
    world = World(managed())
    edit(world, drain_seconds=seconds)
    world.hold_drains.clear()
    return world


def untrue(world: World) -> list[Condition]:
    """Return every Provisioned condition whose reason and status contradict each other."""
    conditions = [status.condition("Provisioned") for status in world.statuses]
    return [one for one in conditions if one is not None and (one.reason == "Running") is not (one.status == "True")]


async def is_at(world: World, incarnation: str) -> bool:
    return await is_ready(world) and world.proxy is not None and world.proxy.status.incarnation == incarnation


@pytest.mark.parametrize("by", ["retry", "look"])
async def test_a_look_in_the_middle_of_a_drain_says_nothing_else(temporal_client: Client, by: str) -> None:
    world = draining()
    async with ready(temporal_client, world) as handle:
        await handle.signal("rotate")
        await eventually(lambda: times(world, "drain_proxy"))
        statuses, events, tells = len(world.statuses), len(world.events), len(world.tells)
        if by == "retry":
            await handle.signal("retry")
        else:
            await handle.signal("changed", poke("", look=True))
        edit(world)
        await handle.signal("changed", poke(world.fingerprint))
        await eventually(lambda: times(world, "look_for_instance"), lambda count: count == 2)
        await asyncio.sleep(1)
        assert untrue(world) == []
        assert (len(world.statuses), len(world.events), len(world.tells)) == (statuses, events, tells)
        world.hold_drains.set()
        await eventually(lambda: is_at(world, "i2"))


async def test_a_removal_that_failed_is_over_once_the_instance_is_found_gone(temporal_client: Client) -> None:
    world = World(managed())
    async with ready(temporal_client, world) as handle:
        world.errors["remove_instance"] = failure("StillThere", "box/1 is still being deleted")
        await handle.signal("rotate")
        await eventually(lambda: _message(world), lambda text: "still being deleted" in text)
        # It goes by itself while the next try is waited for.
        world.instance = None
        world.created_as = InstanceState.COMING
        statuses = len(world.statuses)
        world.hooks["await_instance"] = _forever
        await eventually(lambda: times(world, "await_instance"), within=25)
        await eventually(lambda: _reason(world), lambda reason: reason == "Provisioning")
        said = [one for status in world.statuses[statuses:] if (one := status.condition("Provisioned")) is not None]
        assert [one.message for one in said if "still being deleted" in one.message] == []


async def test_an_instance_that_went_while_it_came_is_not_on_record_any_more(temporal_client: Client) -> None:
    world = World(managed())
    world.created_as = InstanceState.COMING

    async def goes() -> None:
        world.instance = None

    world.hooks["await_instance"] = goes
    async with running_world(temporal_client, world):
        handle = await start(temporal_client)
        await eventually(lambda: _reason(world), lambda reason: reason in ("InstanceMissing", "InstanceStopped"))
        assert world.proxy is not None
        assert (world.proxy.status.provider_id, world.proxy.status.incarnation) == ("", "")
        await handle.terminate()


@pytest.mark.parametrize("what", ["rotate", "age"])
async def test_what_serves_is_not_given_up_while_nothing_can_be_made_in_its_place(
    temporal_client: Client, what: str
) -> None:
    world = UnreadableCloudInit(managed())
    async with ready(temporal_client, world) as handle:
        world.cloud_init_error = 'secret "init" has no label crawl.example.com/cloud-init'
        world.spec_hash = ""
        if what == "rotate":
            annotate(world, rotate="1")
        else:
            assert world.instance is not None
            world.instance = dataclasses.replace(
                world.instance, created_at=world.instance.created_at - timedelta(hours=1)
            )
            edit(world, max_age_seconds=60)
        await handle.signal("changed", poke(world.fingerprint, look=True))
        await eventually(lambda: _message(world), lambda text: "has no label" in text)
        reads = world.reads
        await asyncio.sleep(3)
        assert (await is_at(world, "i1"), world.reads - reads <= 1) == (True, True)
        assert "remove_instance" not in world.calls
        # As soon as it can be read, what was asked for is done.
        world.cloud_init_error, world.spec_hash = "", "v1-aaaa"
        edit(world)
        await handle.signal("changed", poke(world.fingerprint))
        await eventually(lambda: is_at(world, "i2"))


class UnreadableCloudInit(World):
    cloud_init_error = ""

    @activity.defn
    async def read_proxy(self, reference: messages.ProxyReference) -> messages.ProxyReading:
        reading = await super().read_proxy(reference)
        return dataclasses.replace(reading, cloud_init_error=self.cloud_init_error)


async def test_an_object_recreated_while_its_create_runs_leaves_no_instance_behind(temporal_client: Client) -> None:
    world = World(managed())
    world.hold_creates.clear()
    async with running_world(temporal_client, world):
        handle = await start(temporal_client)
        await eventually(lambda: times(world, "create_instance"))

        async def recreated() -> None:
            # Between the reading and the write: somebody took the finalizers off by hand.
            world.proxy, world.fingerprint = managed("uid-2"), "recreated"

        world.hooks["write_status"] = recreated
        edit(world, deleting=True)
        await handle.signal("changed", poke(world.fingerprint))
        await eventually(lambda: _uid(world), lambda uid: uid == "uid-2")
        world.hooks.clear()
        await handle.signal("changed", poke("recreated", uid="uid-2"))
        await asyncio.sleep(1)
        assert world.calls.count("create_instance") == 1
        world.hold_creates.set()
        await eventually(lambda: is_at(world, "i2"))
        assert [(removal.reference.uid, removal.incarnation) for removal in world.removals] == [("uid-1", "i1")]
        await handle.terminate()


async def _forever() -> None:
    while True:
        activity.heartbeat()
        await asyncio.sleep(0.2)


async def _message(world: World) -> str:
    return condition(world).message


async def _reason(world: World) -> str:
    return condition(world).reason


async def _uid(world: World) -> str:
    return world.proxy.uid if world.proxy is not None else ""


async def test_the_status_repeats_what_the_provider_says_of_an_instance_that_is_long_in_coming(
    temporal_client: Client,
) -> None:
    world = World(managed())
    world.created_as = InstanceState.COMING
    async with running_world(temporal_client, world):
        handle = await start(temporal_client)
        for said in ("0/1 nodes are available", "the image cannot be pulled", ""):
            await eventually(lambda: times(world, "await_instance"))
            assert world.instance is not None
            world.instance = dataclasses.replace(world.instance, message=said)
            await eventually(lambda: _message(world), lambda text, said=said: text == said)  # type: ignore[misc]
            assert condition(world).reason == "Provisioning"
        length = len((await handle.fetch_history()).events)
        await asyncio.sleep(1)
        assert len((await handle.fetch_history()).events) == length, "the same said again is no news"


async def test_one_that_replaced_a_proven_one_has_to_prove_itself(temporal_client: Client) -> None:
    world = World(managed())
    async with ready(temporal_client, world) as handle:
        world.hold_probes.clear()
        await handle.signal("rotate")
        await eventually(lambda: times(world, "create_instance"), lambda count: count == 2)
        await eventually(lambda: _reason(world), lambda reason: reason == "Running")
        assert world.instance is not None
        world.instance = dataclasses.replace(world.instance, state=InstanceState.STOPPED, ip="")
        await handle.signal("changed", poke("", look=True))
        await eventually(lambda: _reason(world), lambda reason: reason == "InstanceStopped")
        await eventually(lambda: _message(world), lambda text: "the last instance ended before passing a probe" in text)
        assert await times(world, "create_instance") == 2, "the next one waits"
