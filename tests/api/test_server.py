"""Listening and stopping."""

import asyncio
import socket
import time
from datetime import timedelta

import pytest
from prometheus_client import CollectorRegistry
from temporalio.client import Client

from api.application import create_app
from api.server import ApiServer, serve
from api.settings import ApiSettings, parse_address
from leasing.client import BrokerClient
from model.errors import ConfigurationError
from tests.api.serving import serving
from tests.leasing.brokers import INSTALLATION, broker_with
from tests.workflows.lease_broker_worker import running_broker


def server_of(client: Client, settings: ApiSettings) -> ApiServer:
    app = create_app(settings, BrokerClient(client, INSTALLATION), CollectorRegistry())
    return ApiServer(app, settings)


@pytest.mark.parametrize(
    ("address", "parsed"),
    [
        (":8090", ("", 8090)),
        ("127.0.0.1:0", ("127.0.0.1", 0)),
        ("[::1]:80", ("::1", 80)),
        ("api.example:65535", ("api.example", 65535)),
    ],
)
def test_addresses_are_host_and_port(address: str, parsed: tuple[str, int]) -> None:
    assert parse_address(address) == parsed


@pytest.mark.parametrize(
    "address", ["", "8090", "host", "host:", "host:x", ":65536", "::1:80", ":²", ":-1", ":" + "1" * 5000]
)
def test_other_addresses_are_refused_by_name(address: str) -> None:
    with pytest.raises(ConfigurationError, match="--discovery-addr"):
        parse_address(address)


@pytest.mark.parametrize("address", [":0", "0.0.0.0:0", "[::]:0", "192.0.2.1:0", "api.example:0"])
async def test_without_a_token_it_does_not_listen_beyond_loopback(temporal_client: Client, address: str) -> None:
    with pytest.raises(ConfigurationError, match="--allow-unauthenticated") as caught:
        await server_of(temporal_client, ApiSettings(discovery_addr=address)).start()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "settings",
    [
        ApiSettings(discovery_addr=":0", allow_unauthenticated=True),
        ApiSettings(discovery_addr=":0", token=b"t"),
        ApiSettings(discovery_addr="localhost:0"),
        ApiSettings(discovery_addr="127.0.1.1:0"),
    ],
)
async def test_with_a_token_a_word_or_on_loopback_it_listens(temporal_client: Client, settings: ApiSettings) -> None:
    server = server_of(temporal_client, settings)
    await server.start()
    assert server.ready
    assert server.port > 0
    await server.stop()
    assert not server.ready


async def test_a_taken_port_is_refused_in_one_line(temporal_client: Client) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(ConfigurationError, match=address):
            await server_of(temporal_client, ApiSettings(discovery_addr=address)).start()


def test_settings_that_make_no_sense_are_refused_and_the_token_is_not_shown() -> None:
    with pytest.raises(ConfigurationError, match="--max-lease-ttl"):
        ApiSettings(max_lease_ttl=timedelta(milliseconds=500))
    with pytest.raises(ConfigurationError, match="--lease-cooldown"):
        ApiSettings(lease_cooldown=timedelta(0))
    assert "planted" not in repr(ApiSettings(token=b"planted"))


async def test_a_stop_answers_who_waits_and_closes_who_is_idle(temporal_client: Client) -> None:
    """A hundred idle keep-alive connections, and twenty acquires that no worker answers."""
    broker = BrokerClient(temporal_client, INSTALLATION)
    async with serving(broker) as api:
        idle = [await asyncio.open_connection("127.0.0.1", api.server.port) for _ in range(100)]
        for _, writer in idle[:50]:
            writer.write(b"GET /healthz HTTP/1.1\r\nHost: api\r\n\r\n")
        for reader, _ in idle[:50]:
            assert (await reader.readuntil(b"ok\n")).startswith(b"HTTP/1.1 200")
        waiting = [asyncio.create_task(api.ask("POST", "/v1/leases", json={})) for _ in range(20)]
        await asyncio.sleep(0.3)
        start = time.monotonic()
        stopping = asyncio.create_task(api.server.stop())
        await asyncio.sleep(0)
        assert not api.server.ready
        for answer in await asyncio.gather(*waiting):
            assert (answer.status, answer.code) == (503, "unavailable")
            assert answer.headers["Retry-After"]
        await stopping
        assert time.monotonic() - start < 10
        for reader, writer in idle:
            assert await reader.read() == b""
            writer.close()
            await writer.wait_closed()
    async with running_broker(temporal_client):
        await broker.close()


async def test_while_it_gives_notice_it_still_serves(temporal_client: Client) -> None:
    async with broker_with(temporal_client, 1) as broker, serving(broker) as api:
        stopping = asyncio.create_task(api.server.stop(notice=1.0))
        await asyncio.sleep(0.1)
        assert not api.server.ready
        assert (await api.ask("POST", "/v1/leases", json={})).status == 201
        await stopping


async def test_serve_ends_when_it_is_told_to(temporal_client: Client) -> None:
    settings = ApiSettings(discovery_addr="127.0.0.1:0")
    app = create_app(settings, BrokerClient(temporal_client, INSTALLATION), CollectorRegistry())
    stop = asyncio.Event()
    serving_it = asyncio.create_task(serve(app, settings, stop))
    await asyncio.sleep(0.1)
    assert not serving_it.done()
    stop.set()
    await asyncio.wait_for(serving_it, 5)
