"""A paused proxy: nobody is asked, nothing is probed or leased, and what runs goes on running."""

import asyncio

import pytest
from temporalio.client import Client
from temporalio.exceptions import ApplicationError

from model.proxy import Proxy
from tests.e2e.polling import eventually
from tests.workflows.proxy_changes import annotate, condition, edit, is_gone, is_ready, ready, times, views
from tests.workflows.proxy_world import World, external, managed, poke, running_world, start

PROVIDER_CALLS = {"look_for_instance", "create_instance", "await_instance", "remove_instance", "unmark_instance"}


async def is_paused(world: World) -> bool:
    return condition(world).reason == "Paused"


def provider_calls(world: World) -> list[str]:
    return [name for name in world.calls if name in PROVIDER_CALLS]


def paused(of: Proxy) -> Proxy:
    world = World(of)
    edit(world, paused=True)
    assert world.proxy is not None
    return world.proxy


async def test_what_runs_goes_on_unprobed_and_unleased_and_is_looked_at_first_afterwards(
    temporal_client: Client,
) -> None:
    world = World(managed())
    async with ready(temporal_client, world) as handle:
        calls, tells, watches = len(provider_calls(world)), len(world.tells), len(world.watches)
        edit(world, paused=True)
        await handle.signal("changed", poke(world.fingerprint))
        await eventually(lambda: is_paused(world))

        assert world.proxy is not None
        status = world.proxy.status
        assert (status.phase, status.ip, status.provider_id, status.incarnation) == (
            "Pending",
            "127.0.0.9",
            "box/1",
            "i1",
        )
        assert (condition(world).status, condition(world).message) == ("True", "paused")
        assert (condition(world, "Ready").status, condition(world, "Ready").reason) == ("False", "Paused")
        healthy = condition(world, "Healthy")
        assert (healthy.status, healthy.reason, healthy.message) == ("Unknown", "NoVerdict", "paused")
        assert [view.leasable for view in views(world)[tells:]] == [False]
        assert views(world)[-1].instance == "i1"

        before = (await handle.describe()).history_length
        for name in ("retry", "rotate"):
            await handle.signal(name)
        await handle.signal("changed", poke("", look=True))
        await asyncio.sleep(2)
        assert len(provider_calls(world)) == calls
        assert len(world.watches) == watches
        assert (await handle.describe()).history_length < before + 25, "it rests"

        edit(world, paused=False)
        await handle.signal("changed", poke(world.fingerprint))
        await eventually(lambda: times(world, "remove_instance"), lambda count: count == 1)
        await eventually(lambda: is_ready(world))
        # The rotation was asked for meanwhile.
        assert provider_calls(world)[calls:] == [
            "look_for_instance",
            "remove_instance",
            "look_for_instance",
            "create_instance",
        ]


@pytest.mark.parametrize("of", [managed(finalizers=()), managed(), external()], ids=["new", "managed", "external"])
async def test_one_that_is_paused_from_the_start_meets_no_provider(temporal_client: Client, of: Proxy) -> None:
    world = World(paused(of))
    async with running_world(temporal_client, world):
        handle = await start(temporal_client)
        await eventually(lambda: is_paused(world))
        await asyncio.sleep(1)
        assert set(world.calls) == {"write_status"}
        assert not world.watches
        assert not any(view.leasable for view in views(world))

        edit(world, paused=False)
        await handle.signal("changed", poke(world.fingerprint))
        if of.spec.managed and not of.finalizers:
            await eventually(lambda: times(world, "add_finalizer"))
        else:
            await eventually(lambda: is_ready(world))
        await handle.terminate()


async def test_an_external_one_keeps_its_endpoint_on_record(temporal_client: Client) -> None:
    world = World(external())
    async with ready(temporal_client, world) as handle:
        edit(world, paused=True)
        await handle.signal("changed", poke(world.fingerprint))
        await eventually(lambda: is_paused(world))
        assert (condition(world).status, condition(world, "Healthy").status) == ("True", "Unknown")
        assert (views(world)[-1].leasable, views(world)[-1].ip) == (False, "127.0.0.1")
        edit(world, paused=False)
        await handle.signal("changed", poke(world.fingerprint))
        await eventually(lambda: is_ready(world))
        assert not provider_calls(world)


@pytest.mark.parametrize("step", ["look", "removal", "wait"])
async def test_a_pause_cuts_short_what_is_in_flight(temporal_client: Client, step: str) -> None:
    world = World(managed())
    async with ready(temporal_client, world) as handle:
        if step == "look":
            world.hold_looks.clear()
            await handle.signal("changed", poke("", look=True))
            await eventually(lambda: times(world, "look_for_instance"), lambda count: count == 2)
        elif step == "removal":
            world.hold_removals.clear()
            await handle.signal("rotate")
            await eventually(lambda: times(world, "remove_instance"), lambda count: count == 1)
        else:
            world.errors["look_for_instance"] = ApplicationError("401", type="AccessDeniedError", non_retryable=True)
            await handle.signal("changed", poke("", look=True))
            await eventually(lambda: _message(world), lambda text: "401" in text)
        edit(world, paused=True)
        await handle.signal("changed", poke(world.fingerprint))
        await eventually(lambda: is_paused(world), within=10)
        ran = step != "removal"
        assert condition(world).status == ("True" if ran else "False")

        world.hold_looks.set()
        world.hold_removals.set()
        world.errors.clear()
        edit(world, paused=False)
        await handle.signal("changed", poke(world.fingerprint))
        await eventually(lambda: is_ready(world))
        assert world.calls.count("create_instance") == (1 if ran else 2)
        assert (condition(world).reason, condition(world).message) == ("Running", "")


async def _message(world: World) -> str:
    return condition(world).message


async def test_a_running_create_is_awaited(temporal_client: Client) -> None:
    world = World(managed())
    world.hold_creates.clear()
    async with running_world(temporal_client, world):
        handle = await start(temporal_client)
        await eventually(lambda: times(world, "create_instance"))
        edit(world, paused=True)
        await handle.signal("changed", poke(world.fingerprint))
        await eventually(lambda: is_paused(world))
        assert condition(world).status == "False"
        world.hold_creates.set()

        async def ran() -> bool:
            return condition(world).status == "True"

        await eventually(ran)
        await asyncio.sleep(1)
        assert (condition(world).reason, world.watches) == ("Paused", [])
        assert provider_calls(world) == ["look_for_instance", "create_instance"]
        await handle.terminate()


@pytest.mark.parametrize("skip", [False, True])
async def test_deletion_overrides_the_pause(temporal_client: Client, skip: bool) -> None:
    world = World(managed())
    async with ready(temporal_client, world) as handle:
        edit(world, paused=True)
        await handle.signal("changed", poke(world.fingerprint))
        await eventually(lambda: is_paused(world))
        if skip:
            annotate(world, skip_cleanup="true")
        edit(world, deleting=True)
        await handle.signal("changed", poke(world.fingerprint))
        await eventually(lambda: is_gone(world))
        assert world.calls.count("remove_instance") == (0 if skip else 1)
        assert world.calls.count("unmark_instance") == (1 if skip else 0)


async def test_a_broker_is_told_before_the_status_can_be_written(temporal_client: Client) -> None:
    world = World(managed())
    async with ready(temporal_client, world) as handle:
        tells = len(world.tells)
        world.errors["write_status"] = ApplicationError("the API server is away", type="ClusterUnavailableError")
        edit(world, paused=True)
        await handle.signal("changed", poke(world.fingerprint))

        async def told() -> list[bool]:
            return [view.leasable for view in views(world)[tells:]]

        await eventually(told, lambda leasable: leasable == [False], within=5)
        del world.errors["write_status"]
        await eventually(lambda: is_paused(world))
