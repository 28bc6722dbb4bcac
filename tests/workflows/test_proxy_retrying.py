"""When a failed step is tried again at once."""

import asyncio
import dataclasses
from datetime import timedelta
from typing import Any

import pytest
from temporalio import activity
from temporalio.client import Client, WorkflowHandle
from temporalio.exceptions import (
    ActivityError,
    ApplicationError,
    ApplicationErrorCategory,
    RetryState,
    TimeoutError,
    TimeoutType,
)

from model.failures import failed_cause
from model.instance import InstanceState
from tests.e2e.polling import eventually
from tests.workflows.proxy_changes import annotate, condition, edit, is_ready, ready, times
from tests.workflows.proxy_world import World, managed, poke, running_world, start
from workflows.activity_failures import certainly_made_nothing


def failure(type_: str, message: str = "boom", tries: int = 1) -> ApplicationError:
    return ApplicationError(message, "entry", tries, type=type_, non_retryable=True)


async def reason(world: World) -> str:
    return condition(world).reason


async def message(world: World) -> str:
    return condition(world).message


@pytest.mark.parametrize("step", ["look_for_instance", "create_instance"])
async def test_refused_credentials_are_tried_again_as_soon_as_somebody_says_they_work(
    temporal_client: Client, step: str
) -> None:
    world = World(managed())
    world.errors[step] = failure("AccessDeniedError", "401")
    async with running_world(temporal_client, world):
        handle = await start(temporal_client)
        await eventually(lambda: reason(world), lambda found: found == "AccessDenied")
        await asyncio.sleep(1)
        tries = world.calls.count(step)
        world.errors.clear()
        await handle.signal("changed", poke("", look=True))
        await eventually(lambda: is_ready(world), within=10)
        assert world.calls.count(step) == tries + 1
        await handle.terminate()


@pytest.mark.parametrize("step", ["look_for_instance", "create_instance", "await_instance", "remove_instance"])
@pytest.mark.parametrize(
    ("error", "by"),
    [
        ("AccessDeniedError", "signal"),
        ("AccessDeniedError", "annotation"),
        ("AccessDeniedError", "poke"),
        ("PermanentError", "signal"),
        ("PermanentError", "annotation"),
    ],
)
async def test_a_word_that_comes_while_a_step_is_about_to_fail_is_not_lost(
    temporal_client: Client, step: str, error: str, by: str
) -> None:
    world = World(managed())
    reached, go_on = asyncio.Event(), asyncio.Event()

    async def fail_once() -> None:
        if not reached.is_set():
            reached.set()
            await go_on.wait()
            raise failure(error)

    world.hooks[step] = fail_once
    if step == "await_instance":
        world.created_as = InstanceState.COMING
    async with running_world(temporal_client, world):
        handle = await start(temporal_client)
        if step == "remove_instance":
            await eventually(lambda: is_ready(world))
            await handle.signal("rotate")
        await asyncio.wait_for(reached.wait(), 20)
        await tell(world, handle, by)
        await asyncio.sleep(0.5)
        if step == "await_instance" and world.instance is not None:
            world.instance = dataclasses.replace(world.instance, state=InstanceState.RUNNING, ip="127.0.0.9")
        go_on.set()
        await eventually(lambda: is_ready(world), within=15)
        await handle.terminate()


async def tell(world: World, handle: WorkflowHandle[Any, Any], by: str) -> None:
    if by == "signal":
        await handle.signal("retry")
    elif by == "annotation":
        annotate(world, retry="now")
        await handle.signal("changed", poke(world.fingerprint))
    else:
        await handle.signal("changed", poke("", look=True))


@pytest.mark.parametrize(
    ("cause", "nothing"),
    [
        (failure("QuotaExceededError", tries=1), True),
        (failure("QuotaExceededError", tries=2), False),
        (failure("TransientError", tries=1), False),
        (failure("TransientError", tries=0), True),
        (failure("QuotaExceededError", tries=0), True),
        (ApplicationError("boom", type="QuotaExceededError"), False),
        (TimeoutError("t", type=TimeoutType.SCHEDULE_TO_START, last_heartbeat_details=[]), True),
        (TimeoutError("t", type=TimeoutType.START_TO_CLOSE, last_heartbeat_details=[]), False),
        (TimeoutError("t", type=TimeoutType.HEARTBEAT, last_heartbeat_details=[]), False),
        (None, False),
    ],
)
def test_what_has_certainly_made_nothing(cause: BaseException | None, nothing: bool) -> None:
    error = ActivityError(
        "failed",
        scheduled_event_id=1,
        started_event_id=2,
        identity="i",
        activity_type="create_instance",
        activity_id="1",
        retry_state=RetryState.NON_RETRYABLE_FAILURE,
    )
    error.__cause__ = cause
    assert certainly_made_nothing(error) is nothing


async def test_a_create_that_waits_for_its_turn_waits_as_long_as_it_takes(temporal_client: Client) -> None:
    world = World(managed())
    refusals = 0

    async def not_yet() -> None:
        nonlocal refusals
        refusals += 1
        if refusals <= 8:
            raise ApplicationError(
                "no turn",
                type="NoTurn",
                next_retry_delay=timedelta(milliseconds=100),
                category=ApplicationErrorCategory.BENIGN,
            )

    world.hooks["create_instance"] = not_yet
    async with running_world(temporal_client, world):
        handle = await start(temporal_client)
        await eventually(lambda: is_ready(world))
        assert world.calls.count("create_instance") == 9
        assert "TransientError" not in {found.reason for status in world.statuses for found in status.conditions}
        await handle.terminate()


@pytest.mark.parametrize("change", ["generation", "spec hash", "entry", "retry", "signal"])
@pytest.mark.parametrize("error", ["PermanentError", "NameTakenError"])
async def test_a_latch_is_released_by_any_part_of_its_cause(temporal_client: Client, error: str, change: str) -> None:
    world = World(managed())
    world.errors["create_instance"] = failure(error)
    async with running_world(temporal_client, world):
        handle = await start(temporal_client)
        await eventually(lambda: _phase(world), lambda phase: phase == "Failed")
        assert world.proxy is not None
        assert world.proxy.status.failed_cause == failed_cause(1, "v1-aaaa", "entry", "")
        calls = [name for name in world.calls if name != "write_status"]
        await handle.signal("changed", poke("seen", look=True))
        await asyncio.sleep(1)
        assert [name for name in world.calls if name != "write_status"] == calls, "it is latched"

        world.errors.clear()
        if change == "generation":
            edit(world, max_leases=7)
        elif change == "spec hash":
            world.spec_hash, world.fingerprint = "v1-bbbb", "secret changed"
        elif change == "retry":
            annotate(world, retry="1")
        if change == "signal":
            await handle.signal("retry")
        elif change == "entry":
            await handle.signal("changed", poke("", look=False, entry_hash="another"))
        else:
            await handle.signal("changed", poke(world.fingerprint))
        await eventually(lambda: is_ready(world))
        assert world.proxy.status.failed_cause == ""
        await handle.terminate()


async def _phase(world: World) -> str:
    return world.proxy.status.phase if world.proxy is not None else "gone"


async def test_a_flood_of_stale_pokes_has_no_effect(temporal_client: Client) -> None:
    world = World(managed())
    async with ready(temporal_client, world) as handle:
        calls = list(world.calls)
        await asyncio.gather(*(handle.signal("changed", poke(world.fingerprint)) for _ in range(300)))
        await asyncio.sleep(1)
        assert world.calls == calls


async def test_an_edit_that_is_read_while_a_step_is_refused_for_good_is_tried(temporal_client: Client) -> None:
    world = World(managed())
    async with ready(temporal_client, world) as handle:
        world.hold_removals.clear()

        async def refused() -> None:
            while not world.hold_removals.is_set():
                activity.heartbeat()
                await asyncio.sleep(0.1)
            raise failure("PermanentError", "no")

        world.hooks["remove_instance"] = refused
        world.spec_hash = "v1-bbbb"
        edit(world, port=3129)
        await handle.signal("changed", poke(world.fingerprint))
        await eventually(lambda: times(world, "remove_instance"))
        reads = world.reads
        world.spec_hash = "v1-cccc"
        edit(world, port=3130)
        await handle.signal("changed", poke(world.fingerprint))

        async def read() -> bool:
            return world.reads > reads

        await eventually(read)
        world.hold_removals.set()
        await eventually(lambda: times(world, "remove_instance"), lambda count: count == 2, within=8)
        await asyncio.sleep(2)
        assert world.calls.count("remove_instance") == 2
        assert world.proxy is not None
        assert world.proxy.status.phase == "Failed"
        assert world.proxy.status.failed_cause.startswith(f"generation={world.proxy.generation},spec=v1-cccc")


async def test_what_a_former_object_left_is_tried_for_ever(
    temporal_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("model.failures.SLOW_WAIT_SECONDS", 3.0)
    world = World(managed())
    async with running_world(temporal_client, world, sandboxed=False):
        handle = await start(temporal_client)
        await eventually(lambda: is_ready(world))
        world.errors["remove_instance"] = failure("PermanentError", "no")
        world.proxy, world.fingerprint = managed("uid-2"), "recreated"
        await handle.signal("changed", poke("recreated", uid="uid-2"))
        await eventually(lambda: times(world, "remove_instance"))
        world.errors.clear()
        await eventually(lambda: is_ready(world), within=20)
        assert world.proxy.uid == "uid-2"
        await handle.terminate()
