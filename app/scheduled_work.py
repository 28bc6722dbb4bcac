"""What runs at intervals, brought in line with the settings when a worker starts."""

import asyncio
import logging

from temporalio.client import Client
from temporalio.service import RPCError

from app.schedules import (
    collection_schedule,
    drift_schedule,
    ensure_schedule,
    has_schedule,
    provider_check_schedule,
    remove_schedule,
)
from app.settings import WorkerSettings
from cluster.errors import ClusterError
from cluster.provider_health import ProviderHealthStore
from model import names
from model.errors import UnavailableError

logger = logging.getLogger(__name__)

_LOOK_SECONDS = 60.0


async def schedule_work(client: Client, settings: WorkerSettings, health: ProviderHealthStore) -> None:
    """Create, update or remove the schedules.

    Raises:
        UnavailableError: Temporal did not take one.
    """
    await ensure_schedule(client, names.DRIFT_CHECK_ID, drift_schedule(settings.drift_check_interval))
    await _schedule_collection(client, settings)
    await _schedule_provider_check(client, settings, health)


async def keep_scheduled(
    client: Client, settings: WorkerSettings, health: ProviderHealthStore, look_seconds: float = _LOOK_SECONDS
) -> None:
    """Schedule everything again whenever Temporal has lost it, as one that was wiped or restored has; for ever."""
    while True:
        await asyncio.sleep(look_seconds)
        try:
            if not await has_schedule(client, names.DRIFT_CHECK_ID):
                logger.warning(
                    "Temporal has no schedule %s any more; all schedules are made again", names.DRIFT_CHECK_ID
                )
                await schedule_work(client, settings, health)
        except (RPCError, UnavailableError) as error:
            logger.warning("the schedules could not be looked at: %s", error)


async def _schedule_collection(client: Client, settings: WorkerSettings) -> None:
    namespace = settings.cluster.proxy_namespace
    if settings.collection.interval and namespace and not settings.collection.allow_namespaced:
        logger.warning(
            "no garbage collection: with --proxy-namespace %s the instances of all other Proxies would be deleted; "
            "--gc-allow-namespaced turns it on all the same",
            namespace,
        )
    elif settings.collection.interval:
        await ensure_schedule(client, names.ORPHAN_GC_ID, collection_schedule(settings.collection))
        return
    await remove_schedule(client, names.ORPHAN_GC_ID)


async def _schedule_provider_check(client: Client, settings: WorkerSettings, health: ProviderHealthStore) -> None:
    if settings.provider_check.interval:
        await ensure_schedule(client, names.PROVIDER_CHECK_ID, provider_check_schedule(settings.provider_check))
        return
    await remove_schedule(client, names.PROVIDER_CHECK_ID)
    try:
        # An object that nobody keeps up to date would say Ready for ever.
        await health.remove_others(configured=set())
    except ClusterError as error:
        logger.warning("old ProviderHealth objects could not be removed: %s", error)
