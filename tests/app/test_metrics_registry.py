"""One collector that fails takes only its own metrics from the page."""

from collections.abc import Iterator

import pytest
from prometheus_client import Counter, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from app.metrics_registry import TolerantRegistry


class AtOnce(Collector):
    def collect(self) -> Iterator[Metric]:
        raise RuntimeError("cannot be read")


class HalfWay(Collector):
    def collect(self) -> Iterator[Metric]:
        yield GaugeMetricFamily("half", "Half.", value=1)
        raise RuntimeError("cannot be read")


class NoNumber(Collector):
    def collect(self) -> Iterator[Metric]:
        yield GaugeMetricFamily("odd", "Odd.", value="many")  # type: ignore[arg-type]


@pytest.mark.parametrize("broken", [AtOnce(), HalfWay(), NoNumber()])
def test_the_others_stay_on_the_page(broken: Collector, caplog: pytest.LogCaptureFixture) -> None:
    registry = TolerantRegistry()
    Counter("before", "Before.", registry=registry).inc()
    registry.register(broken)
    Counter("after", "After.", registry=registry).inc()
    name = type(broken).__name__
    for reads in (1, 2):
        page = generate_latest(registry).decode()
        assert "before_total 1.0" in page
        assert "after_total 1.0" in page
        assert f'proxy_operator_collector_failures_total{{collector="{name}"}} {reads}.0' in page
        assert "half 1" not in page
    assert f"the metrics of {name} are left out" in caplog.text


def test_what_is_taken_out_is_read_no_more() -> None:
    registry = TolerantRegistry()
    broken = AtOnce()
    registry.register(broken)
    registry.unregister(broken)
    assert "AtOnce" not in generate_latest(registry).decode()
