"""The watch of a proxy and those who doubt it."""

import asyncio
from typing import cast

from prometheus_client import CollectorRegistry
from temporalio.client import Client
from temporalio.testing import ActivityEnvironment

from activities.health import HealthActivities
from leasing.latency_book import LatencyBook
from model.health import HEALTHY, HealthState
from model.messages import ProxyReference, WatchHealth
from model.probe import ProbeOutcome, ProbeResult
from model.proxy import HealthCheck
from probing.metrics import ProbeMetrics
from probing.probe import Prober, ProbeRequest
from tests.leasing.brokers import COOLDOWN, acquire, broker_with
from tests.leasing.polling import wait_until

WORKS = ProbeResult(outcome=ProbeOutcome.WORKS, reason="ProbeSucceeded", latency_millis=7)


class AlwaysWorks:
    def __init__(self) -> None:
        self.probes = 0

    async def probe(self, _: ProbeRequest) -> ProbeResult:
        self.probes += 1
        return WORKS


async def test_a_transport_error_is_answered_by_a_probe_long_before_the_next_one(temporal_client: Client) -> None:
    prober = AlwaysWorks()
    async with broker_with(temporal_client, 1) as broker:
        latencies = LatencyBook(broker)
        health = HealthActivities(cast("Prober", prober), ProbeMetrics(CollectorRegistry()), latencies)
        watch = WatchHealth(
            reference=ProxyReference(namespace="ns", name="0000", uid="uid-ns/0000"),
            incarnation="i1",
            order=(1, 1),
            host="192.0.2.1",
            port=3128,
            check=HealthCheck(interval_seconds=3600),
            state=HealthState(verdict=HEALTHY, consecutive_successes=1, reported_latency_millis=7, reported_at=1e9),
        )
        tasks = [
            asyncio.create_task(ActivityEnvironment().run(health.watch_health, watch)),
            asyncio.create_task(latencies.run()),
        ]
        try:
            lease_id, _ = await acquire(broker)
            await broker.report(lease_id, "transport_error", "", COOLDOWN)
            assert await broker.doubted_proxies() == [("ns/0000", "uid-ns/0000")]

            async def trusted() -> bool:
                return not await broker.doubted_proxies()

            await wait_until(trusted, 10)
            assert prober.probes == 1
            await acquire(broker)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
