"""The metrics of a process; one collector that fails takes only its own metrics from the page."""

import logging
from collections import Counter
from collections.abc import Iterable, Iterator

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

logger = logging.getLogger(__name__)

FAILURES = "proxy_operator_collector_failures"


class TolerantRegistry(CollectorRegistry):
    """Reads its collectors one by one, and leaves out those that fail; the page then says how often."""

    def __init__(self) -> None:
        super().__init__()
        self._read: list[Collector] = []
        self._failures: Counter[str] = Counter()

    def register(self, collector: Collector) -> None:
        """Add a collector."""
        super().register(collector)
        self._read.append(collector)

    def unregister(self, collector: Collector) -> None:
        """Take a collector out."""
        super().unregister(collector)
        self._read.remove(collector)

    def collect(self) -> Iterable[Metric]:
        """Yield the metrics of every collector that works, then the number of failures so far."""
        for collector in list(self._read):
            yield from self._metrics_of(collector)
        failures = CounterMetricFamily(FAILURES, "Reads of a collector that failed.", labels=["collector"])
        for name, count in sorted(self._failures.items()):
            failures.add_metric([name], count)
        yield failures

    def _metrics_of(self, collector: Collector) -> list[Metric]:
        try:
            return list(_readable(collector.collect()))
        except Exception:
            name = type(collector).__name__
            self._failures[name] += 1
            logger.exception("the metrics of %s are left out: they cannot be read", name)
            return []


def _readable(metrics: Iterable[Metric]) -> Iterator[Metric]:
    """Pass on what can be written: a value that is no number would fail the page as a whole."""
    for metric in metrics:
        for sample in metric.samples:
            float(sample.value)
        yield metric
