"""Metrics of probes, as a scrape sees them."""

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from model.probe import ProbeOutcome, ProbeResult
from probing.metrics import MeasuredProber, ProbeMetrics
from probing.probe import Prober
from tests.probing.requests import request
from tests.probing.servers import Origin


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


def scrape(registry: CollectorRegistry) -> dict[str, float]:
    lines = generate_latest(registry).decode().splitlines()
    pairs = (line.rpartition(" ") for line in lines if not line.startswith("#"))
    return {series: float(value) for series, _, value in pairs if "_created" not in series}


async def test_probes_are_counted_and_timed(
    registry: CollectorRegistry, prober: Prober, origin: Origin, proxy_py_port: int, closed_port: int
) -> None:
    measured = MeasuredProber(prober=prober, metrics=ProbeMetrics(registry), proxy="default/one")
    assert (await measured.probe(request(proxy_py_port, origin.url, timeout=10))).outcome is ProbeOutcome.WORKS
    await measured.probe(request(closed_port, origin.url))
    await measured.probe(request(closed_port, "nonsense"))
    seen = scrape(registry)
    assert seen['proxy_operator_healthcheck_duration_seconds_count{proxy="default/one"}'] == 3
    assert 0 < seen['proxy_operator_healthcheck_duration_seconds_sum{proxy="default/one"}'] < 10
    assert seen['proxy_operator_healthcheck_failures_total{proxy="default/one"}'] == 1
    assert seen['proxy_operator_probe_results_total{result="ProbeSucceeded"}'] == 1
    assert seen['proxy_operator_probe_results_total{result="ConnectRefused"}'] == 1
    assert seen['proxy_operator_probe_results_total{result="InvalidProbeURL"}'] == 1


def test_the_series_of_a_forgotten_proxy_are_gone_and_no_others(registry: CollectorRegistry) -> None:
    metrics = ProbeMetrics(registry)
    broken = ProbeResult(outcome=ProbeOutcome.BROKEN, reason="ConnectTimeout")
    metrics.observe("default/one", broken, 5.0)
    metrics.observe("default/two", broken, 5.0)
    metrics.forget("default/one")
    metrics.forget("default/never")
    seen = scrape(registry)
    assert not [series for series in seen if "default/one" in series]
    assert seen['proxy_operator_healthcheck_failures_total{proxy="default/two"}'] == 1
    assert seen['proxy_operator_probe_results_total{result="ConnectTimeout"}'] == 2


def test_buckets_are_those_of_existing_dashboards(registry: CollectorRegistry) -> None:
    metrics = ProbeMetrics(registry)
    metrics.observe("p", ProbeResult(outcome=ProbeOutcome.WORKS, reason="ProbeSucceeded"), 0.2)
    bounds = [series.split('le="')[1].split('"')[0] for series in scrape(registry) if "_bucket" in series]
    assert bounds == ["0.005", "0.01", "0.025", "0.05", "0.1", "0.25", "0.5", "1.0", "2.5", "5.0", "10.0", "+Inf"]
