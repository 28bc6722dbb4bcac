"""The worker process: every task queue this installation has, or those it was told to serve."""

import asyncio
import functools
import logging
import ssl
from collections.abc import Callable, Sequence
from typing import Any

from activities.broker import BrokerActivities
from activities.collection import CollectionActivities, CollectionMetrics
from activities.drift import DriftActivities
from activities.health import HealthActivities
from activities.instances import InstanceActivities
from activities.provider_checks import CheckActivities, HealthPublishing
from activities.proxies import ProxyActivities
from activities.strays import StrayActivities
from app.components import Components, components
from app.queue_workers import QueuePlan, QueueWorkers, deployment_version
from app.scheduled_work import keep_scheduled, schedule_work
from app.schedules import trigger
from app.search_attributes import SearchAttributes, poke_unlisted
from app.serving import serving
from app.settings import WorkerSettings
from cluster.events import EventWriter
from cluster.live_proxies import LiveProxies
from cluster.provider_health import ProviderHealthStore
from cluster.secrets import CloudInitReader
from leasing.latency_book import LatencyBook
from model import names
from probing.metrics import ProbeMetrics
from probing.probe import Prober
from providers.config import ProviderEntry, ProvidersFile
from providers.metrics import ProviderMetrics
from providers.registry import ProviderRegistry, build_provider
from watcher.workflows import running_workflows
from workflows.drift_check import DriftCheck
from workflows.lease_broker import LeaseBroker
from workflows.orphan_gc import OrphanGC
from workflows.provider_check import ProviderCheck
from workflows.proxy import ProxyWorkflow

logger = logging.getLogger(__name__)

_CONTROL_SLOTS = 200
_PROVIDER_SLOTS = 100
_CONFIG_LOOK_SECONDS = 1.0


async def run_worker(settings: WorkerSettings, stop: asyncio.Event, interceptors: Sequence[Any] = ()) -> None:
    """Serve until ``stop`` is set, then hand over what runs.

    Args:
        settings: What to serve.
        stop: Set to shut down.
        interceptors: Of the Temporal workers.

    Raises:
        ConfigurationError: A setting or the providers file cannot be used.
    """
    settings.deployment.check()
    providers_file = await asyncio.to_thread(_read_providers, settings)
    async with components(settings.cluster) as parts:
        worker = _Worker(settings, parts, providers_file, interceptors)
        async with serving(settings.serving, parts.metrics, lambda: worker.is_ready):
            await worker.run(stop)


def _read_providers(settings: WorkerSettings) -> ProvidersFile:
    return ProvidersFile(settings.providers_config, require_local_task_queue=settings.require_local_task_queue)


class _Worker:
    def __init__(
        self,
        settings: WorkerSettings,
        parts: Components,
        providers_file: ProvidersFile,
        interceptors: Sequence[Any],
    ) -> None:
        self._settings = settings
        self._client = parts.client
        self._interceptors = interceptors
        provider_metrics = ProviderMetrics(parts.metrics)
        build = functools.partial(build_provider, metrics=provider_metrics)
        self._registry = ProviderRegistry(providers_file, parts.installation, build=build)
        provider_metrics.follow_config(lambda: self._registry.config_error)
        self._metrics = parts.metrics
        store = parts.store(settings.cluster.proxy_namespace)
        cloud_init = CloudInitReader(parts.cluster)
        self._latencies = LatencyBook(parts.broker)
        self._prober = Prober(ssl_context=ssl.create_default_context(), target_check=settings.target_check)
        self._search_attributes = SearchAttributes(
            parts.client, on_known=functools.partial(poke_unlisted, parts.client)
        )
        self._proxies = ProxyActivities(
            store,
            cloud_init,
            self._registry,
            events=EventWriter(parts.cluster),
            has_search_attributes=lambda: self._search_attributes.are_known,
        )
        self._broker = BrokerActivities(parts.broker, store)
        self._instances = InstanceActivities(self._registry, store, cloud_init, parts.installation)
        self._health = HealthActivities(self._prober, ProbeMetrics(parts.metrics), self._latencies)
        self._drift = DriftActivities(self._registry, store, parts.client, parts.installation)
        live = LiveProxies(parts.cluster, settings.cluster.proxy_namespace)
        self._collection = CollectionActivities(
            self._registry,
            live,
            parts.installation,
            CollectionMetrics(parts.metrics),
            allow_namespaced=settings.collection.allow_namespaced,
        )
        running = functools.partial(running_workflows, parts.client)
        self._strays = StrayActivities(self._registry, live, parts.broker, parts.client, running)
        self._checks = CheckActivities(self._registry)
        self._provider_health = ProviderHealthStore(parts.cluster, parts.installation)
        self._publishing = HealthPublishing(self._registry, self._provider_health, store, parts.client)
        self._workers = QueueWorkers(parts.client, deployment_version(settings.deployment))
        self.is_ready = False

    async def run(self, stop: asyncio.Event) -> None:
        self._workers.serve(self._plans(await self._registry.entries()))
        background = [
            asyncio.create_task(self._follow_config(), name="providers config"),
            asyncio.create_task(self._latencies.run(), name="latencies"),
        ]
        if self._serves(names.QUEUE_CONTROL):
            background.append(asyncio.create_task(self._search_attributes.run(), name="search attributes"))
        stopped = asyncio.create_task(stop.wait())
        try:
            if self._serves(names.QUEUE_CONTROL):
                work = (self._client, self._settings, self._provider_health)
                await schedule_work(*work)
                background.append(asyncio.create_task(keep_scheduled(*work), name="schedules"))
            self.is_ready = True
            while not stopped.done():
                parts = [stopped, *background, *self._workers.tasks]
                done, _ = await asyncio.wait(parts, timeout=1.0, return_when=asyncio.FIRST_COMPLETED)
                for task in done - {stopped}:
                    # Each of these runs for ever: one that ended has failed, and the process must not live on without.
                    task.result()
                    raise RuntimeError(f"{task.get_name()} has ended")
        finally:
            self.is_ready = False
            for task in (stopped, *background):
                task.cancel()
            await self._workers.shut_down()
            await asyncio.gather(stopped, *background, return_exceptions=True)
            await self._registry.close()
            self._prober.close()

    async def _follow_config(self) -> None:
        """Serve the queues of providers that appear in the config, and have what waited for them looked at."""
        known = await self._registry.entries()
        while True:
            await asyncio.sleep(_CONFIG_LOOK_SECONDS)
            entries = await self._registry.entries()
            if entries == known:
                continue
            known = entries
            self._workers.serve(self._plans(entries))
            await trigger(self._client, names.DRIFT_CHECK_ID)
            if self._settings.provider_check.interval:
                await trigger(self._client, names.PROVIDER_CHECK_ID)

    def _serves(self, queue: str) -> bool:
        return not self._settings.task_queues or queue in self._settings.task_queues

    def _plans(self, entries: Sequence[ProviderEntry]) -> dict[str, QueuePlan]:
        plans: dict[str, QueuePlan] = {}
        wanted = [
            (names.QUEUE_CONTROL, self._control_plan()),
            (names.QUEUE_LEASES, self._leases_plan()),
            (names.QUEUE_PROVIDER, self._provider_plan()),
            (names.QUEUE_PROBES, self._probes_plan()),
        ]
        for entry in entries:
            wanted += [(entry.task_queue, self._provider_plan()), (entry.probe_task_queue, self._probes_plan())]
        for queue, plan in wanted:
            if self._serves(queue):
                plans[queue] = plans[queue].merged(plan) if queue in plans else plan
        return plans

    def _control_plan(self) -> QueuePlan:
        proxies, broker, drift = self._proxies, self._broker, self._drift
        activities: list[Callable[..., Any]] = [
            proxies.read_proxy,
            proxies.add_finalizer,
            proxies.release_finalizers,
            proxies.record_spec_hash,
            proxies.write_status,
            broker.tell_broker,
            broker.prime_broker,
            broker.drain_proxy,
            drift.list_providers,
            drift.poke_proxies,
            self._strays.reconcile_strays,
            self._collection.existing_uids,
            self._publishing.publish_provider_health,
            self._publishing.remove_unconfigured_health,
        ]
        return QueuePlan(
            workflows=[ProxyWorkflow, DriftCheck, OrphanGC, ProviderCheck],
            activities=activities,
            activity_slots=_CONTROL_SLOTS,
            cached_workflows=self._settings.max_proxies_per_worker,
            versioned=True,
            interceptors=self._interceptors,
        )

    def _leases_plan(self) -> QueuePlan:
        # The sandbox costs the one workflow that every lease goes through 40 % of its throughput; its replay tests run
        # with the sandbox on.
        return QueuePlan(
            workflows=[LeaseBroker],
            cached_workflows=10,
            sandboxed=False,
            versioned=True,
            interceptors=self._interceptors,
        )

    def _provider_plan(self) -> QueuePlan:
        return self._edge_plan(_PROVIDER_SLOTS)

    def _probes_plan(self) -> QueuePlan:
        return self._edge_plan(self._settings.max_proxies_per_worker)

    def _edge_plan(self, activity_slots: int) -> QueuePlan:
        """Return the plan of a queue of providers or probes.

        Each knows the activities of both, because an edit of the providers file may give a queue that is already served
        the other purpose too.
        """
        instances = self._instances
        return QueuePlan(
            activities=[
                instances.look_for_instance,
                instances.create_instance,
                instances.await_instance,
                instances.remove_instance,
                instances.unmark_instance,
                self._drift.find_drift,
                self._collection.find_orphans,
                self._collection.collect_orphan,
                self._checks.check_provider,
                self._health.watch_health,
            ],
            activity_slots=activity_slots,
            interceptors=self._interceptors,
        )
