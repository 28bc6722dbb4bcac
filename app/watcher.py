"""The watcher process."""

import asyncio
import functools

from activities.poking import poke_proxy
from app.components import components
from app.fleet_metrics import FleetCollector, follow_leases
from app.provider_metrics import ProviderHealthCollector, ProviderHealthWatch
from app.run_metrics import RunCollector, follow_runs
from app.serving import serving
from app.settings import WatcherSettings
from cluster.watching import WatchSettings
from watcher.watcher import Watcher
from watcher.workflows import running_workflows


async def run_watcher(settings: WatcherSettings, stop: asyncio.Event) -> None:
    """Watch until ``stop`` is set.

    Raises:
        ConfigurationError: A setting cannot be used.
    """
    async with components(settings.cluster) as parts:
        pace = WatchSettings(relist=settings.relist_interval.total_seconds())
        watcher = Watcher(
            parts.cluster,
            send=functools.partial(poke_proxy, parts.client),
            running_workflows=functools.partial(running_workflows, parts.client),
            settings=pace,
            namespace=settings.cluster.proxy_namespace,
        )
        collector = FleetCollector(watcher.view)
        providers, runs = ProviderHealthCollector(), RunCollector()
        for part in (collector, providers, runs):
            parts.metrics.register(part)
        health = ProviderHealthWatch(parts.cluster, parts.installation, pace, providers)
        async with serving(settings.serving, parts.metrics, lambda: watcher.is_ready):
            tasks = [
                asyncio.create_task(watcher.run(), name="watcher"),
                asyncio.create_task(follow_leases(parts.broker, collector), name="lease numbers"),
                asyncio.create_task(health.run(), name="provider health"),
                asyncio.create_task(follow_runs(parts.client, runs), name="scheduled runs"),
                asyncio.create_task(stop.wait(), name="stop"),
            ]
            try:
                done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    task.result()
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
