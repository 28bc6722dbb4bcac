"""Schedules on a real Temporal server: made once, kept up to date, and as a human left them."""

import asyncio
import secrets
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import Client, ScheduleOverlapPolicy
from temporalio.service import RPCError, RPCStatusCode

from app.scheduled_work import keep_scheduled, schedule_work
from app.schedules import (
    collection_schedule,
    drift_schedule,
    ensure_schedule,
    provider_check_schedule,
    remove_schedule,
    trigger,
)
from app.settings import ClusterSettings, CollectionSettings, ProviderCheckSettings, WorkerSettings
from cluster.connection import ClusterConnection
from cluster.provider_health import ProviderHealthStore
from model import names
from model.collection_messages import SweepSettings
from model.provider_check_messages import CheckSettings


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


OFF = timedelta()


def worker(namespace: str = "", **changes: Any) -> WorkerSettings:
    return WorkerSettings(
        cluster=ClusterSettings(proxy_namespace=namespace), providers_config=Path("providers.yaml"), **changes
    )


async def scheduled(client: Client) -> set[str]:
    """Return the schedules there are; the list may lag behind, so each is asked for."""
    found = set()
    for schedule_id in (names.DRIFT_CHECK_ID, names.ORPHAN_GC_ID, names.PROVIDER_CHECK_ID):
        try:
            await client.get_schedule_handle(schedule_id).describe()
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:
                raise
        else:
            found.add(schedule_id)
    return found


async def test_all_work_is_scheduled_or_taken_off_as_the_settings_say(
    temporal_client: Client, kubeconfig: Path, caplog: pytest.LogCaptureFixture
) -> None:
    connection = await ClusterConnection.connect(kubeconfig)
    health = ProviderHealthStore(connection, f"test-{secrets.token_hex(4)}")
    name = f"p-{secrets.token_hex(4)}"
    await health.write(name, {"type": "local"})
    drift, sweeps, checks = names.DRIFT_CHECK_ID, names.ORPHAN_GC_ID, names.PROVIDER_CHECK_ID
    off = worker(collection=CollectionSettings(interval=OFF), provider_check=ProviderCheckSettings(interval=OFF))
    try:
        for _ in range(2):
            await schedule_work(temporal_client, worker(), health)
            assert await scheduled(temporal_client) == {drift, sweeps, checks}
        assert await health.status(name) != {}
        for _ in range(2):
            await schedule_work(temporal_client, off, health)
            assert await scheduled(temporal_client) == {drift}
        assert await health.status(name) == {}, "nothing says Ready that nobody checks"
        allowed = CollectionSettings(allow_namespaced=True)
        await schedule_work(temporal_client, worker("team-a", collection=allowed), health)
        assert await scheduled(temporal_client) == {drift, sweeps, checks}
        await schedule_work(temporal_client, worker("team-a"), health)
        assert await scheduled(temporal_client) == {drift, checks}
        assert "no garbage collection: with --proxy-namespace team-a" in caplog.text
    finally:
        await connection.close()


async def test_schedules_that_temporal_has_lost_are_made_again(temporal_client: Client, kubeconfig: Path) -> None:
    connection = await ClusterConnection.connect(kubeconfig)
    health = ProviderHealthStore(connection, f"test-{secrets.token_hex(4)}")
    keeping = asyncio.create_task(keep_scheduled(temporal_client, worker(), health, look_seconds=0.05))
    everything = {names.DRIFT_CHECK_ID, names.ORPHAN_GC_ID, names.PROVIDER_CHECK_ID}
    try:
        for _ in range(2):
            async with asyncio.timeout(30):
                while await scheduled(temporal_client) != everything:
                    assert not keeping.done()
                    await asyncio.sleep(0.1)
            for schedule_id in sorted(everything):
                await remove_schedule(temporal_client, schedule_id)
    finally:
        keeping.cancel()
        await connection.close()


async def test_removing_a_schedule_that_is_not_there_is_fine(temporal_client: Client) -> None:
    await remove_schedule(temporal_client, names.ORPHAN_GC_ID)


async def test_the_settings_travel_as_the_argument(temporal_client: Client) -> None:
    collection = CollectionSettings(
        interval=timedelta(minutes=5), minimum_age=timedelta(minutes=7), max_deletes=3, dry_run=True
    )
    await ensure_schedule(temporal_client, names.ORPHAN_GC_ID, collection_schedule(collection))
    assert await argument(temporal_client, names.ORPHAN_GC_ID, SweepSettings) == SweepSettings(
        interval_seconds=300, minimum_age_seconds=420, max_deletes=3, dry_run=True
    )
    checks = ProviderCheckSettings(interval=timedelta(seconds=12))
    await ensure_schedule(temporal_client, names.PROVIDER_CHECK_ID, provider_check_schedule(checks))
    assert await argument(temporal_client, names.PROVIDER_CHECK_ID, CheckSettings) == CheckSettings(
        interval_seconds=12, timeout_seconds=12
    )


async def argument(client: Client, schedule_id: str, kind: type[Any]) -> Any:
    action = (await client.get_schedule_handle(schedule_id).describe()).schedule.action
    [value] = await client.data_converter.decode(action.args, [kind])  # type: ignore[attr-defined]
    return value
