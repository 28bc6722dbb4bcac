"""What tests do to the object of a ``World``, and how they look at what became of it."""

import dataclasses
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from temporalio.client import Client, WorkflowHandle
from temporalio.service import RPCError, RPCStatusCode

from model import messages
from model.proxy import Condition, ProxySpec
from tests.e2e.polling import eventually
from tests.workflows.proxy_world import World, running_world, start


def edit(world: World, **changes: Any) -> None:
    """Change the object; what is a field of the spec changes there, with a new generation."""
    proxy = world.proxy
    assert proxy is not None
    fields = {field.name for field in dataclasses.fields(ProxySpec)}
    in_spec = {key: value for key, value in changes.items() if key in fields}
    others = {key: value for key, value in changes.items() if key not in fields}
    if in_spec:
        others["spec"] = dataclasses.replace(proxy.spec, **in_spec)
        others["generation"] = proxy.generation + 1
    world.proxy = dataclasses.replace(proxy, **others)
    world.fingerprint += "+"


def annotate(world: World, **annotations: str) -> None:
    """Set annotations of ours, by the last part of their names."""
    assert world.proxy is not None
    set_now = {f"crawl.example.com/{key.replace('_', '-')}": value for key, value in annotations.items()}
    edit(world, annotations={**world.proxy.annotations, **set_now})


def condition(world: World, type_: str = "Provisioned") -> Condition:
    """Return a condition of the object, an empty one where it has none."""
    found = world.proxy.status.condition(type_) if world.proxy is not None else None
    return found or Condition(type=type_, status="", reason="")


def views(world: World) -> list[messages.LeasingView]:
    """Return what the broker was told, one after the other."""
    return [tell.view for tell in world.tells if tell.view is not None]


async def is_ready(world: World) -> bool:
    return world.proxy is not None and world.proxy.status.phase == "Ready"


async def is_gone(world: World) -> bool:
    return world.proxy is None


async def times(world: World, what: str) -> int:
    """Return how often an activity was called."""
    return world.calls.count(what)


@asynccontextmanager
async def ready(client: Client, world: World) -> AsyncIterator[WorkflowHandle[Any, Any]]:
    """A workflow whose proxy is Ready and being watched; terminated in the end if it still runs."""
    async with running_world(client, world):
        handle = await start(client)
        await eventually(lambda: is_ready(world))
        await eventually(lambda: _watched(world))
        yield handle
        try:
            await handle.terminate()
        except RPCError as error:
            # It has come to its end already.
            if error.status is not RPCStatusCode.NOT_FOUND:
                raise


async def _watched(world: World) -> int:
    return world.healthy_watches
