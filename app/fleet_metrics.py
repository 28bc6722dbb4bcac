"""State gauges of the fleet, read at scrape time; only the watcher has them, so that sums over processes stay right."""

import asyncio
from collections.abc import Iterator

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from leasing.client import BrokerClient
from model.errors import UnavailableError
from watcher.view import FleetView

_LEASES_SECONDS = 10.0


class FleetCollector(Collector):
    """Proxies by phase, and running leases as the broker last told."""

    def __init__(self, view: FleetView) -> None:
        self._view = view
        self.leases_active: int | None = None

    def collect(self) -> Iterator[Metric]:
        """Yield the gauges; the number of leases is left out while the broker does not answer."""
        proxies = GaugeMetricFamily("proxy_operator_proxies", "Proxy objects by phase.", labels=["phase"])
        for phase, count in sorted(self._view.phases().items()):
            proxies.add_metric([phase], count)
        yield proxies
        if self.leases_active is not None:
            yield GaugeMetricFamily("proxy_operator_leases_active", "Running leases.", value=self.leases_active)


async def follow_leases(broker: BrokerClient, collector: FleetCollector) -> None:
    """Ask the broker for its numbers for ever; a scrape must not wait for it."""
    while True:
        try:
            collector.leases_active = (await broker.summary()).active_leases
        except UnavailableError:
            collector.leases_active = None
        await asyncio.sleep(_LEASES_SECONDS)
