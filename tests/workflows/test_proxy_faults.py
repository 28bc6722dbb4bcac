"""Providers that fail in every way, and what the workflow makes of it."""

import asyncio
import dataclasses
from datetime import UTC, datetime
from typing import Any

import pytest
from temporalio.client import Client
from temporalio.exceptions import ApplicationError

from model import names
from model.health import HEALTHY, HealthState
from model.instance import Instance, InstanceState
from tests.e2e.polling import eventually
from tests.workflows.proxy_changes import ready
from tests.workflows.proxy_world import ROUTE, World, external, managed, poke, running_world, start


def failure(type_: str, message: str = "boom", attempt: int = 1) -> ApplicationError:
    """Return what an activity raises after its last try."""
    return ApplicationError(message, "entry", attempt, type=type_, non_retryable=True)


def instance(state: InstanceState = InstanceState.RUNNING, ip: str = "127.0.0.9", incarnation: str = "i1") -> Instance:
    return Instance(
        provider_id="box/1",
        incarnation=incarnation,
        name="proxy-1",
        state=state,
        ip=ip if state is InstanceState.RUNNING else "",
        uid="uid-1",
        spec_hash="v1-aaaa",
        created_at=datetime.now(UTC),
    )


async def seen(world: World, what: str) -> int:
    return world.calls.count(what)


async def phase(world: World) -> str:
    return world.proxy.status.phase if world.proxy is not None else "gone"


async def reason(world: World) -> str:
    condition = world.proxy.status.condition("Provisioned") if world.proxy is not None else None
    return condition.reason if condition is not None else ""


async def message(world: World) -> str:
    condition = world.proxy.status.condition("Provisioned") if world.proxy is not None else None
    return condition.message if condition is not None else ""


def delete(world: World, **annotations: str) -> None:
    assert world.proxy is not None
    merged = {**world.proxy.annotations, **annotations}
    world.proxy = dataclasses.replace(world.proxy, deleting=True, annotations=merged)
    world.fingerprint += "+deleting"


async def test_skip_cleanup_ends_a_removal_that_cannot_succeed(temporal_client: Client) -> None:
    world = World(managed())
    async with ready(temporal_client, world) as handle:
        world.errors["remove_instance"] = failure("TransientError", "backend is down")
        delete(world)
        await handle.signal("changed", poke(world.fingerprint))
        await eventually(lambda: reason(world), lambda found: found == "TransientError")
        assert await phase(world) == "Deleting"

        delete(world, **{names.ANNOTATION_SKIP_CLEANUP: "true"})
        await handle.signal("changed", poke(world.fingerprint))
        await eventually(lambda: phase(world), lambda found: found == "gone", within=10)


async def test_a_deletion_is_told_to_the_broker_while_a_look_hangs(temporal_client: Client) -> None:
    world = World(managed())
    async with ready(temporal_client, world) as handle:
        world.hold_looks.clear()
        await handle.signal("changed", poke("", look=True))
        await eventually(lambda: seen(world, "look_for_instance"), lambda count: count >= 2)
        delete(world)
        await handle.signal("changed", poke(world.fingerprint))

        async def told() -> bool:
            view = world.tells[-1].view
            return view is not None and view.deleting

        await eventually(told, within=8)
        world.hold_looks.set()
        await eventually(lambda: phase(world), lambda found: found == "gone")


async def test_an_instance_that_dies_at_its_start_is_not_made_again_at_once(temporal_client: Client) -> None:
    world = World(managed())
    world.created_as = InstanceState.STOPPED
    async with running_world(temporal_client, world):
        handle = await start(temporal_client)
        await eventually(lambda: seen(world, "create_instance"), lambda count: count >= 1)
        await eventually(lambda: reason(world), lambda found: found == "InstanceStopped")
        await asyncio.sleep(4)
        assert world.calls.count("create_instance") == 1
        world.created_as = InstanceState.RUNNING
        await handle.signal("retry")
        await eventually(lambda: phase(world), lambda found: found == "Ready")
        await handle.terminate()


async def test_an_instance_that_is_made_again_and_again_and_never_found_is_no_hot_loop(temporal_client: Client) -> None:
    world = World(managed())
    world.created_as = InstanceState.COMING

    async def vanishes() -> None:
        world.instance = None
        # The next create finds the same one again.
        world.calls = [call for call in world.calls if call != "create_instance"]
        creates.append("create_instance")

    async def twice() -> bool:
        return len(creates) >= 2

    creates: list[str] = []
    world.hooks["await_instance"] = vanishes
    async with running_world(temporal_client, world):
        handle = await start(temporal_client)
        await eventually(twice, within=20)
        await asyncio.sleep(4)
        assert len(creates) == 2
        await handle.terminate()


async def test_a_create_that_was_not_answered_keeps_the_finalizer_until_it_cannot_land_any_more(
    temporal_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("model.failures.CREATE_DEADLINE_SECONDS", 6.0)
    world = World(managed())
    world.errors["create_instance"] = failure("TransientError", "create did not end within 60 s", attempt=3)
    async with running_world(temporal_client, world, sandboxed=False):
        handle = await start(temporal_client)
        await eventually(lambda: reason(world), lambda found: found == "TransientError")
        delete(world)
        await handle.signal("changed", poke(world.fingerprint))
        await asyncio.sleep(2)
        assert "release_finalizers" not in world.calls
        # The create lands late, after the provider was asked once: it is looked for again before the finalizer goes.
        world.instance = instance()
        await eventually(lambda: phase(world), lambda found: found == "gone", within=30)
        assert world.calls.index("remove_instance") < world.calls.index("release_finalizers")


@pytest.mark.parametrize(
    ("error", "removes"),
    [("NameTakenError", 0), ("PermanentError", 1)],
)
async def test_a_deletion_goes_on_where_a_look_is_refused_for_good(
    temporal_client: Client, error: str, removes: int
) -> None:
    world = World(managed())
    async with ready(temporal_client, world) as handle:
        world.errors["look_for_instance"] = failure(error)
        world.after_removal = lambda: world.errors.clear()
        delete(world)
        await handle.signal("changed", poke(world.fingerprint, look=True))
        await eventually(lambda: phase(world), lambda found: found == "gone")
        assert world.calls.count("remove_instance") == removes


async def test_a_proxy_that_never_got_an_instance_goes_although_its_provider_left_the_config(
    temporal_client: Client,
) -> None:
    world = World(managed())
    world.errors["create_instance"] = failure("QuotaExceededError")
    async with running_world(temporal_client, world):
        handle = await start(temporal_client)
        await eventually(lambda: reason(world), lambda found: found == "QuotaExceeded")
        world.route = None
        world.errors["look_for_instance"] = failure("ProviderNotConfiguredError")
        delete(world)
        await handle.signal("changed", poke(world.fingerprint))
        await eventually(lambda: phase(world), lambda found: found == "gone")


async def test_refused_credentials_hold_no_proxy_that_was_never_made(temporal_client: Client) -> None:
    world = World(managed())
    world.errors["look_for_instance"] = failure("AccessDeniedError", "401")
    async with running_world(temporal_client, world):
        handle = await start(temporal_client)
        await eventually(lambda: reason(world), lambda found: found == "AccessDenied")
        delete(world)
        await handle.signal("changed", poke(world.fingerprint))
        await eventually(lambda: phase(world), lambda found: found == "gone")


async def test_a_retry_loop_backs_off_and_writes_and_tells_nothing(temporal_client: Client) -> None:
    world = World(managed())
    world.errors["create_instance"] = failure("TransientError", "busy")
    async with running_world(temporal_client, world):
        handle = await start(temporal_client)
        await eventually(lambda: reason(world), lambda found: found == "TransientError")
        writes, tells = world.calls.count("write_status"), len(world.tells)
        await eventually(lambda: seen(world, "create_instance"), lambda count: count >= 2, within=20)
        await asyncio.sleep(12)
        assert world.calls.count("create_instance") == 2, "the second wait is twice the first"
        assert world.calls.count("write_status") == writes
        assert len(world.tells) == tells
        await handle.terminate()


async def test_a_wait_that_fails_is_not_a_hot_loop(temporal_client: Client) -> None:
    world = World(managed())
    world.created_as = InstanceState.COMING
    world.errors["await_instance"] = failure("TransientError", "429")
    async with running_world(temporal_client, world):
        handle = await start(temporal_client)
        await eventually(lambda: reason(world), lambda found: found == "TransientError")
        await asyncio.sleep(4)
        assert world.calls.count("look_for_instance") <= 2
        await handle.terminate()


async def test_an_edited_endpoint_is_not_leasable_before_it_was_probed(temporal_client: Client) -> None:
    world = World(external())
    async with ready(temporal_client, world) as handle:
        proxy = world.proxy
        assert proxy is not None
        world.hold_probes.clear()
        spec = dataclasses.replace(proxy.spec, endpoint_host="192.0.2.1")
        world.proxy, world.fingerprint = dataclasses.replace(proxy, spec=spec, generation=2), "edited"
        await handle.signal("changed", poke("edited"))

        async def watched() -> str:
            return world.watches[-1].host

        await eventually(watched, lambda host: host == "192.0.2.1")
        views = [tell.view for tell in world.tells if tell.view is not None and tell.view.ip == "192.0.2.1"]
        assert views
        assert not any(view.leasable for view in views)
        assert world.watches[-1].state == HealthState()
        world.hold_probes.set()
        await eventually(lambda: phase(world), lambda found: found == "Ready")
        await handle.terminate()


@pytest.mark.parametrize("now", [instance(ip="127.0.0.77"), instance(incarnation="i2")])
async def test_another_address_or_incarnation_is_probed_before_it_is_leased(
    temporal_client: Client, now: Instance
) -> None:
    world = World(managed())
    async with ready(temporal_client, world) as handle:
        watches, tells = len(world.watches), len(world.tells)
        world.hold_probes.clear()
        world.instance = now
        await handle.signal("changed", poke("", look=True))
        await eventually(lambda: _number(world.watches), lambda count: count > watches)
        assert world.watches[-1].state.verdict != HEALTHY
        assert not any(tell.view.leasable for tell in world.tells[tells:] if tell.view is not None)
        world.hold_probes.set()
        await eventually(lambda: phase(world), lambda found: found == "Ready")
        await handle.terminate()


async def _number(items: list[Any]) -> int:
    return len(items)


async def test_an_edit_counts_as_observed_only_when_a_step_was_decided_for_it(temporal_client: Client) -> None:
    world = World(managed())
    async with ready(temporal_client, world) as handle:
        world.errors["look_for_instance"] = failure("AccessDeniedError", "401")
        await handle.signal("changed", poke("", look=True))
        await eventually(lambda: message(world), lambda found: "401" in found)
        proxy = world.proxy
        assert proxy is not None
        world.spec_hash = "v1-bbbb"
        world.proxy, world.fingerprint = dataclasses.replace(proxy, generation=2), "edited"
        looks = world.calls.count("look_for_instance")
        await handle.signal("changed", poke("edited"))
        await eventually(lambda: seen(world, "look_for_instance"), lambda count: count > looks)
        await asyncio.sleep(1)
        assert world.proxy.status.observed_generation == 1
        await handle.terminate()


async def test_a_removal_that_fails_leaves_a_spec_that_was_reverted_running(temporal_client: Client) -> None:
    world = World(managed())
    async with ready(temporal_client, world) as handle:
        world.errors["remove_instance"] = failure("TransientError", "busy")
        proxy = world.proxy
        assert proxy is not None
        world.spec_hash = "v1-bbbb"
        world.proxy, world.fingerprint = dataclasses.replace(proxy, generation=2), "edited"
        await handle.signal("changed", poke("edited"))
        await eventually(lambda: reason(world), lambda found: found == "TransientError")
        world.spec_hash = "v1-aaaa"
        world.proxy, world.fingerprint = dataclasses.replace(world.proxy, generation=3), "reverted"
        await handle.signal("changed", poke("reverted"))

        await eventually(lambda: phase(world), lambda found: found == "Ready")
        assert await reason(world) == "Running"
        assert all(watch.host for watch in world.watches)
        await handle.terminate()


async def test_a_probe_queue_that_moved_is_found(temporal_client: Client) -> None:
    world = World(managed())
    world.route = dataclasses.replace(ROUTE, probe_task_queue="nobody")
    async with running_world(temporal_client, world, schedule_to_start=3.0):
        handle = await start(temporal_client)

        async def healthy() -> str:
            condition = world.proxy.status.condition("Healthy") if world.proxy is not None else None
            return condition.reason if condition is not None else ""

        await eventually(healthy, lambda found: found == "NoWorker")
        world.route = ROUTE
        await eventually(lambda: phase(world), lambda found: found == "Ready", within=40)
        await handle.terminate()


async def test_a_proxy_the_broker_has_no_room_for_says_so(temporal_client: Client) -> None:
    world = World(external())
    world.broker_is_full = True
    async with running_world(temporal_client, world):
        handle = await start(temporal_client)

        async def why() -> str:
            condition = world.proxy.status.condition("Ready") if world.proxy is not None else None
            return condition.reason if condition is not None else ""

        await eventually(why, lambda found: found == "LeaseBrokerFull")
        world.broker_is_full = False
        await handle.signal("changed", poke("again"))
        await eventually(why, lambda found: found == "Ready")
        await handle.terminate()


async def test_an_external_proxy_that_somebody_elses_finalizer_holds_says_that_it_is_being_deleted(
    temporal_client: Client,
) -> None:
    world = World(external(finalizers=("example.com/other",)))
    async with ready(temporal_client, world) as handle:
        delete(world)
        await handle.signal("changed", poke(world.fingerprint))
        await handle.result()
        assert world.proxy is not None
        assert world.proxy.status.phase == "Deleting"
        assert world.tells[-1].view is None


async def test_a_recreated_object_says_what_it_waits_for(temporal_client: Client) -> None:
    world = World(managed())
    async with ready(temporal_client, world) as handle:
        world.errors["remove_instance"] = failure("TransientError", "busy")
        world.proxy, world.fingerprint = managed("uid-2"), "recreated"
        await handle.signal("changed", poke("recreated", uid="uid-2"))
        await eventually(lambda: reason(world), lambda found: found == "Replacing")
        assert "create_instance" not in world.calls[world.calls.index("remove_instance") :]
        del world.errors["remove_instance"]
        await handle.signal("retry")
        await eventually(lambda: phase(world), lambda found: found == "Ready")
        assert world.proxy.uid == "uid-2"
        await handle.terminate()
