"""Races and rules of the Proxy's workflow: nothing is lost, nothing is written twice."""

import asyncio
import dataclasses
from typing import Any

import pytest
from temporalio.client import Client, WorkflowExecutionStatus, WorkflowHandle
from temporalio.exceptions import ApplicationError
from temporalio.worker import Replayer
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner, SandboxRestrictions

from model import names
from tests.conftest import TemporalFactory
from tests.e2e.polling import eventually
from tests.workflows.proxy_world import World, external, managed, poke, running_world, start
from workflows.proxy import ProxyWorkflow


async def phase(world: World) -> str:
    return world.proxy.status.phase if world.proxy is not None else "gone"


async def status(handle: WorkflowHandle[Any, Any]) -> WorkflowExecutionStatus | None:
    return (await handle.describe()).status


async def test_a_poke_that_arrives_while_the_run_ends_is_not_lost(temporal_client: Client) -> None:
    world = World(None)
    world.hold_tells.clear()
    async with running_world(temporal_client, world):
        handle = await start(temporal_client)
        # The workflow has seen that the object is gone and tells the broker so; meanwhile it is made anew.
        await eventually(lambda: _count(world.orders), lambda count: count == 1)
        world.proxy, world.fingerprint = external("uid-2"), "f1"
        await handle.signal("changed", poke("f1", uid="uid-2"))
        world.hold_tells.set()

        await eventually(lambda: phase(world), lambda seen: seen == "Ready")
        assert world.reads == 2
        assert await status(handle) is WorkflowExecutionStatus.RUNNING
        await handle.terminate()


async def _count(items: list[Any]) -> int:
    return len(items)


@pytest.mark.parametrize("pokes", [1, 20, 200])
async def test_an_evaluated_fingerprint_costs_a_signal_and_nothing_else(temporal_client: Client, pokes: int) -> None:
    world = World(external())
    async with running_world(temporal_client, world):
        handle = await start(temporal_client)
        await eventually(lambda: phase(world), lambda seen: seen == "Ready")
        reads, calls = world.reads, list(world.calls)

        for _ in range(pokes):
            await handle.signal("changed", poke("f0"))
        world.fingerprint = "f1"
        await handle.signal("changed", poke("f1"))

        await eventually(lambda: _number(world), lambda count: count > reads)
        assert world.reads == reads + 1
        assert world.calls == calls
        await handle.terminate()


async def _number(world: World) -> int:
    return world.reads


async def test_changes_without_end_while_a_create_runs_do_not_fill_the_history(own_temporal: TemporalFactory) -> None:
    server = await own_temporal(dynamic_config={"limit.historyCount.suggestContinueAsNew": "60"})
    client = await Client.connect(server.address)
    world = World(managed())
    world.hold_creates.clear()
    async with running_world(client, world):
        handle = await start(client)
        first = await handle.describe()

        async def changes() -> int:
            world.fingerprint += "+"
            await handle.signal("changed", poke(world.fingerprint))
            return (await handle.describe()).history_length

        await eventually(changes, lambda events: events > 80, within=60)
        reads = world.reads
        for _ in range(30):
            await changes()
            await asyncio.sleep(0.2)
        assert world.reads <= reads + 1
        world.hold_creates.set()
        await eventually(lambda: phase(world), lambda seen: seen == "Ready")
        assert world.calls.count("create_instance") == 1
        assert (await client.get_workflow_handle(handle.id).describe()).run_id != first.run_id
        await client.get_workflow_handle(handle.id).terminate()


async def test_pokes_across_continue_as_new_are_not_lost_and_the_order_goes_on(own_temporal: TemporalFactory) -> None:
    server = await own_temporal(dynamic_config={"limit.historyCount.suggestContinueAsNew": "120"})
    client = await Client.connect(server.address)
    world = World(managed())
    async with running_world(client, world):
        handle = await start(client)
        await eventually(lambda: phase(world), lambda seen: seen == "Ready")
        for number in range(150):
            reads = world.reads
            world.fingerprint = f"g{number}"
            await handle.signal("changed", poke(f"g{number}"))
            if number % 5 == 0:
                await eventually(lambda: _number(world), lambda count, before=reads: count > before)  # type: ignore[misc]
        proxy = world.proxy
        assert proxy is not None
        world.proxy = dataclasses.replace(proxy, deleting=True, generation=2)
        world.fingerprint = "last"
        await handle.signal("changed", poke("last"))

        await eventually(lambda: phase(world), lambda seen: seen == "gone", within=60)
        await eventually(lambda: status(handle), lambda seen: seen is WorkflowExecutionStatus.COMPLETED)
        assert world.calls.count("create_instance") == 1
        assert world.calls.count("remove_instance") == 1
        assert world.orders == sorted(set(world.orders)), "what is told to the broker is told in order"
        runs = [run async for run in client.list_workflows(f"WorkflowId='{handle.id}'")]
        assert len(runs) >= 3


async def test_a_broker_that_has_something_newer_is_told_again_above_it(temporal_client: Client) -> None:
    world = World(external())
    world.newer_order = (2**52, 41)
    async with running_world(temporal_client, world):
        handle = await start(temporal_client)
        await eventually(lambda: phase(world), lambda seen: seen == "Ready")
        assert tuple(world.tells[0].order) == (2**52, 42)
        await handle.terminate()


async def test_a_retry_loop_writes_its_status_once(temporal_client: Client) -> None:
    world = World(managed())
    world.errors["create_instance"] = ApplicationError("no capacity", type="QuotaExceededError", non_retryable=True)
    async with running_world(temporal_client, world):
        handle = await start(temporal_client)
        await eventually(lambda: _reason(world), lambda reason: reason == "QuotaExceeded")
        writes = world.calls.count("write_status")
        for _ in range(3):
            tries = world.calls.count("create_instance")
            await handle.signal("retry")
            await eventually(lambda: _calls(world, "create_instance"), lambda count, before=tries: count > before)  # type: ignore[misc]
            await eventually(lambda: _reason(world), lambda reason: reason == "QuotaExceeded")
        # Each try says Creating and then what came of it: nothing piles up beyond that.
        assert world.calls.count("write_status") == writes
        del world.errors["create_instance"]
        await handle.signal("retry")
        await eventually(lambda: phase(world), lambda seen: seen == "Ready")
        await handle.terminate()


async def _reason(world: World) -> str:
    condition = world.proxy.status.condition("Provisioned") if world.proxy is not None else None
    return condition.reason if condition is not None else ""


async def _calls(world: World, name: str) -> int:
    return world.calls.count(name)


@pytest.mark.parametrize("signal", ["retry", "no-such-signal"])
@pytest.mark.parametrize("arguments", [[], [1], [{"a": "b"}], ["x", "y"]])
async def test_signals_by_hand_with_any_input_never_hurt(
    temporal_client: Client, signal: str, arguments: list[Any]
) -> None:
    world = World(external())
    async with running_world(temporal_client, world):
        handle = await start(temporal_client)
        await handle.signal(signal, args=arguments)
        await handle.signal("changed", args=["not a poke"])
        await eventually(lambda: phase(world), lambda seen: seen == "Ready")
        assert await status(handle) is WorkflowExecutionStatus.RUNNING
        await handle.terminate()


async def test_a_whole_life_works_without_a_cache_and_replays(temporal_client: Client) -> None:
    world = World(managed())
    async with running_world(temporal_client, world, cached_workflows=0):
        handle = await start(temporal_client)
        await eventually(lambda: phase(world), lambda seen: seen == "Ready")
        proxy = world.proxy
        assert proxy is not None
        world.proxy, world.fingerprint = dataclasses.replace(proxy, deleting=True), "deleting"
        await handle.signal("changed", poke("deleting"))
        await eventually(lambda: status(handle), lambda seen: seen is WorkflowExecutionStatus.COMPLETED)
        history = await handle.fetch_history()

    replayer = Replayer(
        workflows=[ProxyWorkflow],
        workflow_runner=SandboxedWorkflowRunner(
            restrictions=SandboxRestrictions.default.with_passthrough_modules("model")
        ),
    )
    await replayer.replay_workflow(history)
    assert len(history.events) < 150
    assert handle.id == names.proxy_workflow_id("ns", "px")
