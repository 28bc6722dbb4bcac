"""A clean-up that a human skips: one short try to take our marks off, and nothing is waited for."""

import dataclasses

import pytest
from temporalio.client import Client

from model import names
from tests.e2e.polling import eventually
from tests.workflows.proxy_changes import annotate, condition, edit, is_gone, ready, times, views
from tests.workflows.proxy_world import World, managed, poke, running_world, start


async def test_skip_cleanup_takes_the_marks_off_first_once(temporal_client: Client) -> None:
    world = World(managed())
    async with ready(temporal_client, world) as handle:
        annotate(world, skip_cleanup="true")
        edit(world, deleting=True)
        await handle.signal("changed", poke(world.fingerprint))
        await eventually(lambda: is_gone(world))
        (unmark,) = world.unmarked
        assert (unmark.provider, unmark.provider_id, unmark.incarnation) == ("box", "box/1", "i1")
        assert world.calls.index("unmark_instance") < world.calls.index("release_finalizers")
        assert not any(view.leasable for view in views(world)[-1:])
        assert world.removals == []


@pytest.mark.parametrize("how", ["fails", "nobody"])
async def test_skip_cleanup_goes_on_where_the_marks_cannot_be_taken_off(temporal_client: Client, how: str) -> None:
    world = World(managed())
    async with ready(temporal_client, world) as handle:
        if how == "fails":
            world.errors["unmark_instance"] = RuntimeError("boom")
        elif world.route is not None:
            world.route = dataclasses.replace(world.route, task_queue="nobody")
        annotate(world, skip_cleanup="true")
        edit(world, deleting=True)
        await handle.signal("changed", poke(world.fingerprint))
        await eventually(lambda: is_gone(world), within=10)
        assert world.calls.count("unmark_instance") == (1 if how == "fails" else 0)


async def test_skip_cleanup_does_not_wait_for_a_create(temporal_client: Client) -> None:
    world = World(managed())
    world.hold_creates.clear()
    async with running_world(temporal_client, world):
        handle = await start(temporal_client)
        await eventually(lambda: times(world, "create_instance"))
        edit(world, deleting=True)
        await handle.signal("changed", poke(world.fingerprint))

        async def message() -> str:
            return condition(world).message

        await eventually(message, lambda text: text == "a create is under way")
        assert names.FINALIZER in (world.proxy.finalizers if world.proxy is not None else ())
        annotate(world, skip_cleanup="true")
        await handle.signal("changed", poke(world.fingerprint))
        await eventually(lambda: is_gone(world), within=10)
