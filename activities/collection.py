"""Finds and deletes instances that nobody owns. The lists stay here; what leaves are counts and a few ids."""

import asyncio
from datetime import UTC, datetime, timedelta

from prometheus_client import CollectorRegistry, Counter
from temporalio import activity
from temporalio.exceptions import ApplicationError

from activities.errors import provider_errors_as_failures
from activities.heartbeats import heartbeating
from cluster.live_proxies import LiveProxies
from model.collection import LiveProxy, Rules, find_orphans, why_spared
from model.collection_messages import (
    ALREADY_GONE,
    DELETED,
    MOST_DELETES,
    SPARED,
    CollectOrphan,
    Findings,
    OrphanQuery,
    SweepSettings,
)
from model.errors import NotFoundError, TransientError
from model.instance import Instance
from providers.contract import Provider
from providers.registry import ProviderRegistry

_GONE_SECONDS = 20.0
_GONE_PAUSE_SECONDS = 0.2
_LONGEST_GONE_PAUSE_SECONDS = 2.0


class CollectionMetrics:
    """What garbage collection counts."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._deleted = Counter(
            "proxy_operator_gc_deleted_total",
            "Instances without an owner that were deleted.",
            ["provider"],
            registry=registry,
        )

    def count_deleted(self, provider: str) -> None:
        """Count one instance that is proven gone."""
        self._deleted.labels(provider).inc()


class CollectionActivities:
    """Activities of a provider's queue that look for orphans.

    Args:
        registry: The providers of this worker.
        live: Every Proxy there is.
        installation: Ours.
        metrics: Counts what is deleted.
        allow_namespaced: Whether a list of one namespace's Proxies counts as complete.
    """

    def __init__(
        self,
        registry: ProviderRegistry,
        live: LiveProxies,
        installation: str,
        metrics: CollectionMetrics,
        *,
        allow_namespaced: bool = False,
    ) -> None:
        self._registry = registry
        self._live = live
        self._installation = installation
        self._metrics = metrics
        self._allow_namespaced = allow_namespaced

    @activity.defn
    async def find_orphans(self, query: OrphanQuery) -> Findings:
        """List the instances, then the Proxies, and judge. Any error proves nothing, and nothing is returned."""
        self._refuse_part_of_the_proxies()
        async with heartbeating(), provider_errors_as_failures():
            provider = await self._registry.get(query.provider)
            instances = await provider.list_managed()
            live = await self._live.by_uid()
            # Tens of thousands take a while, in which the loop has heartbeats to send.
            return await asyncio.to_thread(
                find_orphans,
                query.provider,
                instances,
                live,
                self._rules(query.settings, query.at, query.previous_at),
                query.seen_before,
                most_doomed=min(query.settings.max_deletes, MOST_DELETES),
                most_candidates=query.most_candidates,
            )

    @activity.defn
    async def existing_uids(self, uids: list[str]) -> list[str]:
        """Return which of these uids are a Proxy's, for whoever does not trust another worker's view of the cluster."""
        self._refuse_part_of_the_proxies()
        async with heartbeating(), provider_errors_as_failures():
            live = await self._live.by_uid()
            return [uid for uid in uids if uid in live]

    @activity.defn
    async def collect_orphan(self, collect: CollectOrphan) -> str:
        """Look once more, then delete one incarnation and prove it gone; return what became of it."""
        self._refuse_part_of_the_proxies()
        orphan = collect.orphan
        async with heartbeating(), provider_errors_as_failures():
            provider = await self._registry.get(collect.provider)
            instance = await _get(provider, orphan.provider_id)
            if instance is None or (instance.incarnation, instance.uid) != (orphan.incarnation, orphan.uid):
                return ALREADY_GONE
            owner = (await self._live.by_uid()).get(instance.uid)
            reason = why_spared(
                instance,
                collect.provider,
                {} if owner is None else {instance.uid: owner},
                await _recorded(provider, owner),
                self._rules(collect.settings, collect.at),
            )
            if reason is not None:
                return f"{SPARED}{reason}"
            activity.logger.warning(
                "deleting %s of provider %s (incarnation %s, uid %s): nobody owns it",
                orphan.provider_id,
                collect.provider,
                orphan.incarnation,
                orphan.uid,
            )
            await _remove(provider, orphan.provider_id, orphan.incarnation)
        self._metrics.count_deleted(collect.provider)
        return DELETED

    def _refuse_part_of_the_proxies(self) -> None:
        if self._live.namespace and not self._allow_namespaced:
            raise ApplicationError(
                f"this worker sees only the Proxies of namespace {self._live.namespace}, so instances of all others "
                "would be deleted; give it --gc-allow-namespaced if there are no others",
                type="Namespaced",
                non_retryable=True,
            )

    def _rules(self, settings: SweepSettings, at: float, previous_at: float = 0.0) -> Rules:
        return Rules(
            installation=self._installation,
            at=datetime.fromtimestamp(at, UTC),
            minimum_age=timedelta(seconds=settings.minimum_age_seconds),
            interval=timedelta(seconds=settings.interval_seconds),
            collect_unmarked=settings.collect_unmarked,
            previous_at=datetime.fromtimestamp(previous_at, UTC) if previous_at else None,
        )


async def _recorded(provider: Provider, owner: LiveProxy | None) -> list[tuple[str, str]]:
    """Return the instance on a Proxy's record, if the provider has it."""
    instance = await _get(provider, owner.provider_id) if owner is not None and owner.provider_id else None
    return [(instance.provider_id, instance.incarnation)] if instance is not None else []


async def _get(provider: Provider, provider_id: str) -> Instance | None:
    try:
        return await provider.get(provider_id)
    except NotFoundError:
        return None


async def _remove(provider: Provider, provider_id: str, incarnation: str) -> None:
    """Delete one incarnation, and return once it is proven gone.

    Raises:
        TransientError: It is still there; a later sweep goes on with it.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + _GONE_SECONDS
    pause = _GONE_PAUSE_SECONDS
    while True:
        await provider.delete(provider_id, incarnation)
        left = await _get(provider, provider_id)
        if left is None or left.incarnation != incarnation:
            return
        if loop.time() > deadline:
            raise TransientError(f"{provider_id} is still being deleted")
        await asyncio.sleep(pause)
        pause = min(_LONGEST_GONE_PAUSE_SECONDS, pause * 1.5)
