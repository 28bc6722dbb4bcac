"""Schedules on a real Temporal server: made once, kept up to date, and as a human left them."""

import asyncio
from datetime import timedelta

import pytest
from temporalio.client import Client, ScheduleOverlapPolicy

from app.schedules import drift_schedule, ensure_schedule, trigger
from model import names


async def interval(client: Client) -> timedelta:
    description = await client.get_schedule_handle(names.DRIFT_CHECK_ID).describe()
    return description.schedule.spec.intervals[0].every


async def test_a_schedule_is_made_and_brought_up_to_date(temporal_client: Client) -> None:
    for wanted in (timedelta(minutes=2), timedelta(minutes=2), timedelta(seconds=30)):
        await ensure_schedule(temporal_client, names.DRIFT_CHECK_ID, drift_schedule(wanted))
        assert await interval(temporal_client) == wanted
    schedules = [found.id async for found in await temporal_client.list_schedules()]
    assert schedules.count(names.DRIFT_CHECK_ID) <= 1


async def test_a_run_can_never_keep_the_next_ones_away(temporal_client: Client) -> None:
    await ensure_schedule(temporal_client, names.DRIFT_CHECK_ID, drift_schedule(timedelta(minutes=2)))
    description = await temporal_client.get_schedule_handle(names.DRIFT_CHECK_ID).describe()
    timeout = getattr(description.schedule.action, "execution_timeout", None)
    assert timeout is not None
    assert timeout < timedelta(minutes=4)
    assert description.schedule.policy.overlap is ScheduleOverlapPolicy.SKIP


@pytest.mark.parametrize("seconds", [1, 2, 120, 86_400])
def test_a_run_may_take_longer_than_one_interval_but_not_two(seconds: int) -> None:
    timeout = getattr(drift_schedule(timedelta(seconds=seconds)).action, "execution_timeout", None)
    assert timeout is not None
    assert timedelta(seconds=seconds) < timeout <= max(timedelta(seconds=2 * seconds), timedelta(seconds=5))


async def test_pausing_by_hand_survives_a_start(temporal_client: Client) -> None:
    await ensure_schedule(temporal_client, names.DRIFT_CHECK_ID, drift_schedule(timedelta(minutes=2)))
    handle = temporal_client.get_schedule_handle(names.DRIFT_CHECK_ID)
    await handle.pause(note="looking into it")
    await ensure_schedule(temporal_client, names.DRIFT_CHECK_ID, drift_schedule(timedelta(minutes=3)))
    state = (await handle.describe()).schedule.state
    assert (state.paused, state.note) == (True, "looking into it")
    assert await interval(temporal_client) == timedelta(minutes=3)


async def test_many_workers_may_start_at_once(temporal_client: Client) -> None:
    wanted = drift_schedule(timedelta(minutes=2))
    await asyncio.gather(*(ensure_schedule(temporal_client, names.DRIFT_CHECK_ID, wanted) for _ in range(8)))
    await asyncio.gather(
        *(
            ensure_schedule(temporal_client, names.DRIFT_CHECK_ID, drift_schedule(timedelta(minutes=5)))
            for _ in range(8)
        )
    )
    assert await interval(temporal_client) == timedelta(minutes=5)


async def test_a_trigger_starts_a_run_and_a_missing_schedule_is_forgiven(temporal_client: Client) -> None:
    await trigger(temporal_client, "no-such-schedule")
    await ensure_schedule(temporal_client, names.DRIFT_CHECK_ID, drift_schedule(timedelta(hours=1)))
    await trigger(temporal_client, names.DRIFT_CHECK_ID)
    handle = temporal_client.get_schedule_handle(names.DRIFT_CHECK_ID)
    for _ in range(200):
        info = (await handle.describe()).info
        if info.num_actions:
            break
        await asyncio.sleep(0.05)
    assert info.num_actions == 1
