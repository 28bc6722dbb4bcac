"""The paths of a ProxyWorkflow whose histories are saved: each plays one in a scripted world."""

import asyncio
import dataclasses
from datetime import UTC, datetime, timedelta
from typing import Any

from temporalio import activity
from temporalio.client import Client, WorkflowHandle
from temporalio.exceptions import ApplicationError

from model import messages
from model.instance import InstanceState
from model.proxy import Proxy
from tests.e2e.polling import eventually
from tests.workflows.proxy_changes import annotate, condition, edit, is_gone, is_ready, ready, times
from tests.workflows.proxy_world import ROUTE, World, external, managed, poke, running_world, start

Handle = WorkflowHandle[Any, Any]
WITHIN = 60.0


class SearchableWorld(World):
    """A world whose Temporal knows the search attributes."""

    @activity.defn
    async def read_proxy(self, reference: messages.ProxyReference) -> messages.ProxyReading:
        reading: messages.ProxyReading = await super().read_proxy(reference)
        return dataclasses.replace(reading, search_attributes=True)


def world_of(proxy: Proxy) -> World:
    return SearchableWorld(proxy)


async def poked(world: World, handle: Handle) -> None:
    await handle.signal("changed", poke(world.fingerprint))


async def delete(world: World, handle: Handle, **annotations: str) -> None:
    """Delete the object and wait until workflow and object are at their end."""
    if annotations:
        annotate(world, **annotations)
    edit(world, deleting=True)
    await poked(world, handle)
    await eventually(lambda: is_gone(world), within=WITHIN)
    await handle.result()


async def is_at(world: World, incarnation: str) -> bool:
    return await is_ready(world) and world.proxy is not None and world.proxy.status.incarnation == incarnation


async def settles_at(world: World, incarnation: str) -> None:
    await eventually(lambda: is_at(world, incarnation), within=WITHIN)


async def says(world: World, reason: str, type_: str = "Provisioned") -> None:
    async def said() -> str:
        return condition(world, type_).reason

    await eventually(said, lambda found: found == reason, within=WITHIN)


def refusal(type_: str, message: str) -> ApplicationError:
    return ApplicationError(message, "entry", 1, type=type_, non_retryable=True)


async def external_life(client: Client) -> list[Handle]:
    """Ready, its endpoint edited, deleted."""
    world = world_of(external())
    async with ready(client, world) as handle:
        edit(world, endpoint_host="192.0.2.1")
        await poked(world, handle)
        await eventually(lambda: _watched(world, "192.0.2.1"), within=WITHIN)
        await eventually(lambda: is_ready(world))
        world.proxy, world.fingerprint = None, "gone"
        await poked(world, handle)
        await handle.result()
        return [handle]


async def _watched(world: World, host: str) -> bool:
    return world.watches[-1].host == host


async def managed_life(client: Client) -> list[Handle]:
    """Finalizer, create, wait, Ready, deleted."""
    world = world_of(managed(finalizers=()))
    world.created_as = InstanceState.COMING
    arrived = asyncio.Event()

    async def arrive() -> None:
        await arrived.wait()
        if world.instance is not None:
            world.instance = dataclasses.replace(world.instance, state=InstanceState.RUNNING, ip="127.0.0.9")

    async def finalize() -> None:
        edit(world, finalizers=managed().finalizers)

    world.hooks = {"await_instance": arrive, "add_finalizer": finalize}
    async with running_world(client, world):
        handle = await start(client)
        await says(world, "Provisioning")
        arrived.set()
        await settles_at(world, "i1")
        await delete(world, handle)
        return [handle]


async def replacement(client: Client) -> list[Handle]:
    """Replaced for its spec, with a drain that a pause interrupts."""
    world = world_of(managed())
    edit(world, drain_seconds=60)
    world.hold_drains.clear()
    async with ready(client, world) as handle:
        world.spec_hash = "v1-bbbb"
        edit(world, port=3129)
        await poked(world, handle)
        await eventually(lambda: times(world, "drain_proxy"))
        edit(world, paused=True)
        await poked(world, handle)
        await says(world, "Paused")
        edit(world, paused=False)
        await poked(world, handle)
        await eventually(lambda: times(world, "drain_proxy"), lambda count: count == 2)
        world.hold_drains.set()
        await settles_at(world, "i2")
        await delete(world, handle)
        return [handle]


async def rotation(client: Client) -> list[Handle]:
    """Rotated by signal and by annotation; a signal that means nothing."""
    world = world_of(managed())
    async with ready(client, world) as handle:
        await handle.signal("rotate", "any input")
        await settles_at(world, "i2")
        annotate(world, rotate="tuesday")
        await poked(world, handle)
        await settles_at(world, "i3")
        await handle.signal("no-such-signal")
        await delete(world, handle)
        return [handle]


async def drain_revoked(client: Client) -> list[Handle]:
    """A spec that is edited back while leases drain, and a deletion that cuts the next drain short."""
    world = world_of(managed())
    edit(world, drain_seconds=60)
    world.hold_drains.clear()
    async with ready(client, world) as handle:
        for spec_hash, drains in (("v1-bbbb", 1), ("v1-aaaa", 1), ("v1-cccc", 2)):
            world.spec_hash = spec_hash
            edit(world, port=3128 + drains)
            await poked(world, handle)
            await drained(world, drains)
            if spec_hash == "v1-aaaa":
                await eventually(lambda: is_ready(world))
        await delete(world, handle)
        return [handle]


async def drained(world: World, number: int) -> None:
    await eventually(lambda: times(world, "drain_proxy"), lambda count: count == number)


async def age(client: Client) -> list[Handle]:
    """Replaced by the clock."""
    world = world_of(managed())
    world.born = lambda: datetime.now(UTC) - timedelta(seconds=100)
    async with ready(client, world) as handle:
        world.born = lambda: datetime.now(UTC)
        edit(world, max_age_seconds=60)
        await poked(world, handle)
        await settles_at(world, "i2")
        await delete(world, handle)
        return [handle]


async def pause(client: Client) -> list[Handle]:
    """Paused while a look hangs, goes on, and deleted while paused."""
    world = world_of(managed())
    async with ready(client, world) as handle:
        world.hold_looks.clear()
        await handle.signal("changed", poke("", look=True))
        await eventually(lambda: times(world, "look_for_instance"), lambda count: count == 2)
        for paused in (True, False, True):
            edit(world, paused=paused)
            await poked(world, handle)
            world.hold_looks.set()
            if paused:
                await says(world, "Paused")
            else:
                await eventually(lambda: is_ready(world))
        await delete(world, handle)
        return [handle]


async def failures(client: Client) -> list[Handle]:
    """Quota, credentials and a transient failure with its wait; then a latch, lifted by retry and by an edit."""
    world = world_of(managed())
    world.errors["create_instance"] = refusal("QuotaExceededError", "no capacity")
    async with running_world(client, world):
        handle = await start(client)
        await says(world, "QuotaExceeded")
        world.errors = {"look_for_instance": refusal("AccessDeniedError", "401")}
        await handle.signal("retry")
        await says(world, "AccessDenied")
        world.errors = {"create_instance": refusal("TransientError", "busy")}
        await handle.signal("changed", poke("", look=True))
        await says(world, "TransientError")
        creates = world.calls.count("create_instance")
        await eventually(lambda: times(world, "create_instance"), lambda count: count > creates)
        world.errors = {"create_instance": refusal("PermanentError", "no such zone")}
        await handle.signal("retry", [1, 2])
        await says(world, "PermanentError")
        world.errors = {"create_instance": refusal("NameTakenError", "another uid")}
        annotate(world, retry="1")
        await poked(world, handle)
        await says(world, "NameTaken")
        world.errors = {}
        edit(world, max_leases=7)
        await poked(world, handle)
        await eventually(lambda: is_ready(world), within=WITHIN)
        world.errors["remove_instance"] = refusal("TransientError", "busy")
        edit(world, deleting=True)
        await poked(world, handle)
        await says(world, "TransientError")
        world.errors = {}
        await handle.signal("retry")
        await handle.result()
        return [handle]


async def nobody_there(client: Client) -> list[Handle]:
    """No worker on the provider's queue, then none on the probes', then a provider that is not configured."""
    world = world_of(managed())
    world.route = dataclasses.replace(ROUTE, task_queue="nobody", probe_task_queue="nobody")
    async with running_world(client, world, schedule_to_start=2.0):
        handle = await start(client)
        await says(world, "NoWorker")
        world.route = dataclasses.replace(ROUTE, probe_task_queue="nobody")
        edit(world, max_leases=6)
        await poked(world, handle)
        await says(world, "NoWorker", "Healthy")
        world.route = ROUTE
        await settles_at(world, "i1")
        world.route = None
        edit(world, max_leases=7)
        await poked(world, handle)
        await says(world, "Running")
        await delete(world, handle)
        return [handle]


async def cloud_init(client: Client) -> list[Handle]:
    """Cloud-init that cannot be read at first."""
    world = UnreadableWorld(managed())
    world.spec_hash = ""
    async with running_world(client, world):
        handle = await start(client)
        await says(world, "CloudInitError")
        world.spec_hash = "v1-aaaa"
        world.fingerprint = "readable"
        await poked(world, handle)
        await settles_at(world, "i1")
        await delete(world, handle)
        return [handle]


class UnreadableWorld(SearchableWorld):
    """Its cloud-init cannot be read while it has no spec hash."""

    @activity.defn
    async def read_proxy(self, reference: messages.ProxyReference) -> messages.ProxyReading:
        reading: messages.ProxyReading = await super().read_proxy(reference)
        error = "" if reading.spec_hash else "spec.cloudInit.secretRef: there is no Secret ns/absent"
        return dataclasses.replace(reading, cloud_init_error=error)
