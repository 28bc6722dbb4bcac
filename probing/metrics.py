"""What Prometheus is told about probes."""

import time

from prometheus_client import CollectorRegistry, Counter, Histogram

from model.probe import ProbeOutcome, ProbeResult
from probing.probe import ProbeRequest
from probing.watch import Probes

BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Upper bounds in seconds: the default buckets of Prometheus' Go client, which existing dashboards know."""


class ProbeMetrics:
    """Counts and times probes. The label ``proxy`` is ``namespace/name``; ``result`` is the reason of the probe."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._duration = Histogram(
            "proxy_operator_healthcheck_duration_seconds",
            "Duration of health probes through the proxy.",
            ("proxy",),
            buckets=BUCKETS,
            registry=registry,
        )
        self._failures = Counter(
            "proxy_operator_healthcheck_failures_total",
            "Health probes that found the proxy broken.",
            ("proxy",),
            registry=registry,
        )
        self._results = Counter(
            "proxy_operator_probe_results_total",
            "Health probes by result.",
            ("result",),
            registry=registry,
        )

    def observe(self, proxy: str, result: ProbeResult, duration_seconds: float) -> None:
        """Count one probe."""
        self._duration.labels(proxy).observe(duration_seconds)
        if result.outcome is ProbeOutcome.BROKEN:
            self._failures.labels(proxy).inc()
        self._results.labels(result.reason).inc()

    def forget(self, proxy: str) -> None:
        """Drop the series of a proxy that is not watched here any more; unknown ones are none."""
        self._duration.remove(proxy)
        self._failures.remove(proxy)


class MeasuredProber:
    """Makes the probes of one proxy and counts each, failed ones with the time they took.

    Args:
        prober: Makes the probes.
        metrics: Where they are counted.
        proxy: The label, ``namespace/name``.
    """

    def __init__(self, *, prober: Probes, metrics: ProbeMetrics, proxy: str) -> None:
        self._prober = prober
        self._metrics = metrics
        self._proxy = proxy

    async def probe(self, request: ProbeRequest) -> ProbeResult:
        """Probe once."""
        started = time.monotonic()
        result = await self._prober.probe(request)
        self._metrics.observe(self._proxy, result, time.monotonic() - started)
        return result
