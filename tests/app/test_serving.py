"""The endpoints beside a process's work."""

import asyncio
import socket
from collections.abc import Iterator

import aiohttp
import pytest
from prometheus_client import CollectorRegistry, Counter
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from app.serving import Endpoints, serving, split_address
from app.settings import ServingSettings
from model.errors import ConfigurationError
from tests.support.listening import listen

BOTH = ServingSettings(health_address="127.0.0.1:0", metrics_address="127.0.0.1:0")


async def get(port: int, path: str, **headers: str) -> tuple[int, str]:
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"http://127.0.0.1:{port}{path}", headers=headers) as got,
    ):
        return got.status, await got.text()


async def test_health_and_readiness_are_told_apart() -> None:
    ready = False
    async with serving(BOTH, CollectorRegistry(), lambda: ready) as served:
        assert await get(served.health_port, "/healthz") == (200, "ok\n")
        assert await get(served.health_port, "/readyz") == (503, "not ready\n")
        ready = True
        assert await get(served.health_port, "/readyz") == (200, "ok\n")
        assert (await get(served.health_port, "/metrics"))[0] == 404
        assert (await get(served.metrics_port, "/healthz"))[0] == 404


async def test_metrics_are_read_at_scrape_time() -> None:
    registry = CollectorRegistry()
    counter = Counter("things", "Things.", registry=registry)
    async with serving(BOTH, registry, lambda: True) as served:
        counter.inc()
        assert "things_total 1.0" in (await get(served.metrics_port, "/metrics"))[1]
        counter.inc()
        status, page = await get(served.metrics_port, "/metrics", Accept="application/openmetrics-text; version=1.0.0")
        assert status == 200
        assert "things_total 2.0" in page
        assert page.endswith("# EOF\n")


async def test_a_slow_collector_holds_up_only_its_own_page() -> None:
    class Slow(Collector):
        def collect(self) -> Iterator[Metric]:
            with socket.create_connection(stranger.getsockname()) as connection:
                connection.settimeout(1.0)
                try:
                    connection.recv(1)
                except TimeoutError:
                    yield GaugeMetricFamily("slow", "Slow.", value=1)

    registry = CollectorRegistry(auto_describe=False)
    registry.register(Slow())
    with listen("127.0.0.1") as stranger:
        async with serving(BOTH, registry, lambda: True) as served, aiohttp.ClientSession() as session:
            pending = session.get(f"http://127.0.0.1:{served.metrics_port}/metrics")

            scrape = asyncio.ensure_future(pending)
            assert await get(served.health_port, "/healthz") == (200, "ok\n")
            assert not scrape.done()
            async with await scrape as response:
                assert "slow 1.0" in await response.text()


@pytest.mark.parametrize("nowhere", ["0", ""])
async def test_nothing_is_served_where_nothing_is_wanted(nowhere: str) -> None:
    settings = ServingSettings(health_address=nowhere, metrics_address=nowhere)
    async with serving(settings, CollectorRegistry(), lambda: True) as served:
        assert served == Endpoints()


async def test_ports_are_given_back() -> None:
    async with serving(BOTH, CollectorRegistry(), lambda: True) as served:
        pass
    for port in (served.health_port, served.metrics_port):
        with pytest.raises(aiohttp.ClientConnectorError):
            await get(port, "/healthz")


@pytest.mark.parametrize(
    ("address", "host", "port"),
    [
        (":8081", None, 8081),
        ("127.0.0.1:8081", "127.0.0.1", 8081),
        ("localhost:0", "localhost", 0),
        ("[::1]:8081", "::1", 8081),
        ("0.0.0.0:65535", "0.0.0.0", 65535),
    ],
)
def test_an_address_is_split(address: str, host: str | None, port: int) -> None:
    assert split_address(address, "--flag") == (host, port)


@pytest.mark.parametrize(
    "address",
    ["8081", "127.0.0.1", "127.0.0.1:", ":", ":http", ":65536", ":-1", "::1:80:x", ":٣", ":" + "1" * 5000, "a" * 500],
)
def test_what_is_no_address_is_refused_with_the_flag(address: str) -> None:
    with pytest.raises(ConfigurationError, match=r"^--flag: .* write it like :8081 or 127\.0\.0\.1:8081$") as refused:
        split_address(address, "--flag")
    assert len(str(refused.value)) < 200


@pytest.mark.parametrize("flag", ["--health-probe-bind-address", "--metrics-bind-address"])
async def test_an_address_in_use_is_told_with_the_flag_and_leaves_nothing_open(flag: str) -> None:
    with listen("127.0.0.1") as stranger:
        taken = f"127.0.0.1:{stranger.getsockname()[1]}"
        health, metrics = (taken, "127.0.0.1:0") if "health" in flag else ("127.0.0.1:0", taken)
        settings = ServingSettings(health_address=health, metrics_address=metrics)
        with pytest.raises(ConfigurationError, match=f"^{flag}: cannot listen on {taken}: .*in use"):
            async with serving(settings, CollectorRegistry(), lambda: True):
                pass
