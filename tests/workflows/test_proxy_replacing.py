"""A replacement: it drains before it removes, and ends as soon as nobody wants it any more."""

import asyncio
import dataclasses
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from temporalio.client import Client
from temporalio.exceptions import ApplicationError

from model.instance import InstanceState
from tests.conftest import TemporalFactory
from tests.e2e.polling import eventually
from tests.workflows.proxy_changes import annotate, condition, edit, is_gone, is_ready, ready, times, views
from tests.workflows.proxy_world import World, managed, poke, running_world, start


def draining(seconds: int = 60) -> World:
    """A world whose replaced instance has leases that do not end by themselves."""
    proxy = managed()
    world = World(dataclasses.replace(proxy, spec=dataclasses.replace(proxy.spec, drain_seconds=seconds)))
    world.hold_drains.clear()
    return world


async def change_spec(world: World, handle: Any, spec_hash: str = "v1-bbbb") -> None:
    world.spec_hash = spec_hash
    edit(world, port=3129 if spec_hash == "v1-bbbb" else 3128)
    await handle.signal("changed", poke(world.fingerprint))


async def replaced(world: World) -> bool:
    return await is_ready(world) and world.proxy is not None and world.proxy.status.incarnation == "i2"


async def message(world: World) -> str:
    return condition(world).message


async def test_leases_end_before_the_instance_goes(temporal_client: Client) -> None:
    world = draining()
    async with ready(temporal_client, world) as handle:
        tells = len(world.tells)
        await change_spec(world, handle)
        await eventually(lambda: times(world, "drain_proxy"))

        assert world.proxy is not None
        assert (world.proxy.status.ip, world.proxy.status.incarnation) == ("", "i1")
        assert (condition(world).status, condition(world).reason) == ("False", "Replacing")
        assert condition(world).message == "the spec changed; it drains its leases for up to 60 s"
        assert condition(world, "Healthy").status == "Unknown"
        (view,) = views(world)[tells:]
        assert (view.leasable, view.ip, view.instance) == (False, "127.0.0.9", "i1")
        assert view.drain_ends_at == world.drains[0].ends_at
        assert world.drains[0].instance == "i1"
        await asyncio.sleep(1)
        assert "remove_instance" not in world.calls

        world.hold_drains.set()
        await eventually(lambda: replaced(world))
        assert world.calls.index("drain_proxy") < world.calls.index("remove_instance")
        assert [tell.view.drain_ends_at for tell in world.tells[-1:] if tell.view] == [0]


async def test_a_drain_ends_at_its_time_although_the_broker_is_dead(temporal_client: Client) -> None:
    world = draining(4)
    world.drains_fail = True
    async with ready(temporal_client, world) as handle:
        await change_spec(world, handle)
        await eventually(lambda: times(world, "drain_proxy"), lambda count: count >= 2)
        assert "remove_instance" not in world.calls
        await eventually(lambda: replaced(world), within=20)


@pytest.mark.parametrize("skip", [False, True])
async def test_a_deletion_cuts_the_drain_short_and_makes_none(temporal_client: Client, skip: bool) -> None:
    world = draining()
    async with ready(temporal_client, world) as handle:
        await change_spec(world, handle)
        await eventually(lambda: times(world, "drain_proxy"))
        if skip:
            annotate(world, skip_cleanup="true")
        edit(world, deleting=True)
        await handle.signal("changed", poke(world.fingerprint))
        await eventually(lambda: is_gone(world), within=15)
        assert world.calls.count("drain_proxy") == 1
        assert world.calls.count("remove_instance") == (0 if skip else 1)


async def test_skip_cleanup_cuts_short_what_a_deletion_waits_for(temporal_client: Client) -> None:
    world = draining()
    async with ready(temporal_client, world) as handle:
        world.hold_removals.clear()
        edit(world, deleting=True)
        await handle.signal("changed", poke(world.fingerprint))
        await eventually(lambda: times(world, "remove_instance"))
        annotate(world, skip_cleanup="true")
        await handle.signal("changed", poke(world.fingerprint))
        await eventually(lambda: is_gone(world), within=15)
        assert "drain_proxy" not in world.calls
        assert world.calls.count("unmark_instance") == 1


async def test_a_spec_that_is_edited_back_ends_the_drain_and_keeps_the_instance(temporal_client: Client) -> None:
    world = draining()
    async with ready(temporal_client, world) as handle:
        await change_spec(world, handle)
        await eventually(lambda: times(world, "drain_proxy"))
        await change_spec(world, handle, "v1-aaaa")
        await eventually(lambda: is_ready(world), within=15)
        assert "remove_instance" not in world.calls
        assert (condition(world).message, views(world)[-1].leasable, views(world)[-1].drain_ends_at) == ("", True, 0)
        # The next replacement drains anew.
        await change_spec(world, handle)
        await eventually(lambda: times(world, "drain_proxy"), lambda count: count == 2)
        assert world.drains[1].ends_at > world.drains[0].ends_at


async def test_another_edit_during_the_drain_is_what_the_next_instance_is_made_from(temporal_client: Client) -> None:
    world = draining()
    async with ready(temporal_client, world) as handle:
        await change_spec(world, handle)
        await eventually(lambda: times(world, "drain_proxy"))
        world.spec_hash = "v1-cccc"
        edit(world, port=3130)
        await handle.signal("changed", poke(world.fingerprint))
        world.hold_drains.set()
        await eventually(lambda: replaced(world))
        assert (world.calls.count("remove_instance"), world.calls.count("create_instance")) == (1, 2)
        assert {drain.ends_at for drain in world.drains} == {world.drains[0].ends_at}
        assert world.instance is not None
        assert world.instance.spec_hash == "v1-cccc"


async def test_a_pause_holds_the_drain_and_its_end_stays(temporal_client: Client) -> None:
    world = draining()
    async with ready(temporal_client, world) as handle:
        await change_spec(world, handle)
        await eventually(lambda: times(world, "drain_proxy"))
        edit(world, paused=True)
        await handle.signal("changed", poke(world.fingerprint))

        async def paused() -> str:
            return condition(world).reason

        await eventually(paused, lambda reason: reason == "Paused")
        assert condition(world).message == "the spec changed; paused"
        await asyncio.sleep(1)
        assert "remove_instance" not in world.calls
        assert not views(world)[-1].leasable

        edit(world, paused=False)
        await handle.signal("changed", poke(world.fingerprint))
        await eventually(lambda: times(world, "drain_proxy"), lambda count: count == 2)
        assert world.drains[1].ends_at == world.drains[0].ends_at
        world.hold_drains.set()
        await eventually(lambda: replaced(world))
        assert world.calls.count("remove_instance") == 1


async def test_a_removal_that_fails_does_not_begin_the_drain_anew_nor_hand_the_instance_out(
    temporal_client: Client,
) -> None:
    world = draining(3)
    async with ready(temporal_client, world) as handle:
        tells, watches = len(world.tells), len(world.watches)
        world.errors["remove_instance"] = ApplicationError("busy", type="TransientError", non_retryable=True)
        await change_spec(world, handle)
        await eventually(lambda: message(world), lambda text: text == "the spec changed; busy")
        ends_at = world.drains[0].ends_at
        await eventually(lambda: times(world, "remove_instance"), lambda count: count == 2, within=25)
        assert (len(world.watches), {drain.ends_at for drain in world.drains}) == (watches, {ends_at})
        assert not any(view.leasable for view in views(world)[tells:])
        assert {view.drain_ends_at for view in views(world)[tells:]} == {ends_at}
        del world.errors["remove_instance"]
        await handle.signal("retry")
        await eventually(lambda: replaced(world))
        assert condition(world).message == ""


@pytest.mark.parametrize("seconds", [0, 60])
async def test_nothing_is_waited_for_where_nobody_asks_for_it_or_nothing_serves(
    temporal_client: Client, seconds: int
) -> None:
    world = draining(seconds)
    async with ready(temporal_client, world) as handle:
        if seconds:
            assert world.instance is not None
            world.instance = dataclasses.replace(world.instance, state=InstanceState.STOPPED, ip="")
            await handle.signal("changed", poke("", look=True))
        else:
            await change_spec(world, handle)
        await eventually(lambda: replaced(world))
        assert "drain_proxy" not in world.calls
        begun = [status.condition("Provisioned") for status in world.statuses]
        said = {(found.reason, found.message) for found in begun if found is not None}
        assert ("InstanceStopped" if seconds else "Replacing") in {event.reason for event in world.events}
        expected = ("InstanceStopped", "it stopped by itself") if seconds else ("Replacing", "the spec changed")
        assert expected in said


async def test_a_worker_that_dies_in_the_drain_does_not_change_its_end(temporal_client: Client) -> None:
    world = draining(12)
    async with running_world(temporal_client, world):
        handle = await start(temporal_client)
        await eventually(lambda: is_ready(world))
        await change_spec(world, handle)
        await eventually(lambda: times(world, "drain_proxy"))
    assert "remove_instance" not in world.calls
    async with running_world(temporal_client, world):
        world.hold_drains.set()
        await eventually(lambda: replaced(world), within=40)
        assert {drain.ends_at for drain in world.drains} == {world.drains[0].ends_at}
        assert world.calls.count("remove_instance") == 1
        await handle.terminate()


async def test_a_clock_that_was_set_back_makes_no_drain_longer(temporal_client: Client) -> None:
    world = draining(4)
    async with running_world(temporal_client, world):
        handle = await start(temporal_client)
        await eventually(lambda: is_ready(world))
        await change_spec(world, handle)
        await eventually(lambda: times(world, "drain_proxy"))
        await handle.terminate()
        assert world.proxy is not None
        tomorrow = (datetime.now(UTC) + timedelta(days=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
        status = world.proxy.status
        later = tuple(dataclasses.replace(one, last_transition_time=tomorrow) for one in status.conditions)
        edit(world, status=dataclasses.replace(status, conditions=later))
        handle = await start(temporal_client, world.fingerprint)
        await eventually(lambda: replaced(world), within=25)
        assert world.calls.count("remove_instance") == 1
        await handle.terminate()


async def test_a_drain_goes_on_in_the_next_run_when_the_history_is_long(own_temporal: TemporalFactory) -> None:
    server = await own_temporal(dynamic_config={"limit.historyCount.suggestContinueAsNew": "120"})
    client = await Client.connect(server.address)
    world = draining(120)
    async with running_world(client, world):
        handle = await start(client)
        await eventually(lambda: is_ready(world))
        await change_spec(world, handle)
        await eventually(lambda: times(world, "drain_proxy"))
        first = await handle.describe()

        async def continued() -> bool:
            world.fingerprint += "+"
            await handle.signal("changed", poke(world.fingerprint))
            return (await client.get_workflow_handle(handle.id).describe()).run_id != first.run_id

        await eventually(continued, within=60)
        await eventually(lambda: times(world, "drain_proxy"), lambda count: count >= 2)
        assert {drain.ends_at for drain in world.drains} == {world.drains[0].ends_at}
        assert "remove_instance" not in world.calls
        world.hold_drains.set()
        await eventually(lambda: replaced(world))
        assert world.calls.count("remove_instance") == 1
        await client.get_workflow_handle(handle.id).terminate()


async def test_stale_pokes_in_the_drain_cost_nothing(temporal_client: Client) -> None:
    world = draining()
    async with ready(temporal_client, world) as handle:
        await change_spec(world, handle)
        await eventually(lambda: times(world, "drain_proxy"))
        reads, calls = world.reads, list(world.calls)
        for _ in range(200):
            await handle.signal("changed", poke(world.fingerprint))
        world.hold_drains.set()
        await eventually(lambda: replaced(world))
        assert world.calls.count("remove_instance") == 1
        assert world.calls[: len(calls)] == calls
        assert world.reads <= reads + 2
