"""The Temporal Schedules, created or brought up to date at worker start."""

import logging
from datetime import timedelta
from typing import Any

from temporalio.client import (
    Client,
    Schedule,
    ScheduleActionStartWorkflow,
    ScheduleAlreadyRunningError,
    ScheduleIntervalSpec,
    ScheduleOverlapPolicy,
    SchedulePolicy,
    ScheduleSpec,
    ScheduleUpdate,
    ScheduleUpdateInput,
)
from temporalio.service import RPCError, RPCStatusCode

from app.settings import CollectionSettings, ProviderCheckSettings
from model import names
from model.collection_messages import SweepSettings
from model.errors import UnavailableError
from model.provider_check_messages import CheckSettings

logger = logging.getLogger(__name__)

_DEADLINE = timedelta(seconds=10)


def drift_schedule(interval: timedelta) -> Schedule:
    """Return the schedule of DriftCheck."""
    return _schedule("DriftCheck", names.DRIFT_CHECK_ID, interval)


def collection_schedule(settings: CollectionSettings) -> Schedule:
    """Return the schedule of OrphanGC."""
    argument = SweepSettings(
        interval_seconds=settings.interval.total_seconds(),
        minimum_age_seconds=settings.minimum_age.total_seconds(),
        max_deletes=settings.max_deletes,
        dry_run=settings.dry_run,
        collect_unmarked=settings.collect_unmarked,
    )
    return _schedule("OrphanGC", names.ORPHAN_GC_ID, settings.interval, argument)


def provider_check_schedule(settings: ProviderCheckSettings) -> Schedule:
    """Return the schedule of ProviderCheck."""
    argument = CheckSettings(
        interval_seconds=settings.interval.total_seconds(),
        timeout_seconds=settings.timeout_in_force.total_seconds(),
    )
    return _schedule("ProviderCheck", names.PROVIDER_CHECK_ID, settings.interval, argument)


def _schedule(workflow: str, schedule_id: str, interval: timedelta, *arguments: Any) -> Schedule:
    """Return the schedule of a workflow.

    A run ends before the second next one is due: behind a run that hung for ever every later one would be skipped.
    """
    return Schedule(
        action=ScheduleActionStartWorkflow(
            workflow,
            args=arguments,
            id=schedule_id,
            task_queue=names.QUEUE_CONTROL,
            execution_timeout=max(interval * 1.9, timedelta(seconds=5)),
        ),
        spec=ScheduleSpec(intervals=[ScheduleIntervalSpec(every=interval)]),
        policy=SchedulePolicy(overlap=ScheduleOverlapPolicy.SKIP, catchup_window=max(interval, timedelta(seconds=10))),
    )


async def ensure_schedule(client: Client, schedule_id: str, schedule: Schedule) -> None:
    """Create the schedule, or make the one that is there equal to it; pausing by hand is kept.

    Raises:
        UnavailableError: Temporal did not take it.
    """
    try:
        try:
            await client.create_schedule(schedule_id, schedule, rpc_timeout=_DEADLINE)
        except ScheduleAlreadyRunningError:
            handle = client.get_schedule_handle(schedule_id)
            await handle.update(lambda current: _changed(current, schedule), rpc_timeout=_DEADLINE)
    except RPCError as error:
        raise UnavailableError(f"schedule {schedule_id} could not be created or updated: {error}") from error


async def remove_schedule(client: Client, schedule_id: str) -> None:
    """Remove the schedule; a run that is under way ends by itself, and one that is not there counts as removed.

    Raises:
        UnavailableError: Temporal did not take it.
    """
    try:
        await client.get_schedule_handle(schedule_id).delete(rpc_timeout=_DEADLINE)
    except RPCError as error:
        if error.status is not RPCStatusCode.NOT_FOUND:
            raise UnavailableError(f"schedule {schedule_id} could not be removed: {error}") from error


def _changed(current: ScheduleUpdateInput, wanted: Schedule) -> ScheduleUpdate:
    wanted.state = current.description.schedule.state
    return ScheduleUpdate(schedule=wanted)


async def has_schedule(client: Client, schedule_id: str) -> bool:
    """Whether Temporal knows the schedule.

    Raises:
        RPCError: It could not be asked.
    """
    try:
        await client.get_schedule_handle(schedule_id).describe(rpc_timeout=_DEADLINE)
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:
            return False
        raise
    return True


async def trigger(client: Client, schedule_id: str) -> None:
    """Have one run now; a server that does not answer is reported and forgiven, the next run comes anyway."""
    try:
        await client.get_schedule_handle(schedule_id).trigger()
    except RPCError as error:
        logger.warning("schedule %s could not be triggered: %s", schedule_id, error)
