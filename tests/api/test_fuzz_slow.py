"""Clients that take their time hold nothing for ever."""

import asyncio
import socket
import time

import pytest
from temporalio.client import Client

from tests.api.serving import serving
from tests.leasing.brokers import broker_with


async def seconds_until_closed(port: int, first: bytes, then: bytes) -> float:
    """Send the first bytes at once and the others again and again, and return when the server ends the connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    start = time.monotonic()
    writer.write(first)
    closed = asyncio.create_task(reader.read())
    async with asyncio.timeout(30):
        while not closed.done():
            writer.write(then)
            await asyncio.wait([closed], timeout=0.1)
    writer.close()
    return time.monotonic() - start


@pytest.mark.parametrize(
    "first",
    [
        b"GET /healthz HTTP/1.1\r\nX: ",
        b"GET /",
        b"",
        b"GET /healthz HTTP/1.1\r\nHost: api\r\n\r\nGET / HTTP/1.1\r\nX: ",
    ],
    ids=["header", "target", "nothing", "second request"],
)
async def test_a_head_that_dribbles_in_is_not_waited_for(
    temporal_client: Client, monkeypatch: pytest.MonkeyPatch, first: bytes
) -> None:
    monkeypatch.setattr("api.server.KEEP_ALIVE_SECONDS", 1.5)
    async with broker_with(temporal_client, 0) as broker, serving(broker) as api:
        taken = await seconds_until_closed(api.server.port, first, b"a" if first else b"")
    assert 1.2 < taken < 6


async def test_a_body_that_dribbles_in_is_not_waited_for(
    temporal_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("api.body.READ_SECONDS", 1.0)
    async with broker_with(temporal_client, 0) as broker, serving(broker) as api:
        head = b"POST /v1/leases HTTP/1.1\r\nHost: api\r\nContent-Length: 60000\r\n\r\n"
        reader, writer = await asyncio.open_connection("127.0.0.1", api.server.port)
        writer.write(head)
        answer = asyncio.create_task(reader.readuntil(b"\r\n\r\n"))
        async with asyncio.timeout(10):
            while not answer.done():
                writer.write(b" ")
                await asyncio.wait([answer], timeout=0.1)
        writer.close()
    assert answer.result().startswith(b"HTTP/1.1 408 ")


async def send_for_ever(client: socket.socket, sent: bytes) -> None:
    while True:
        await asyncio.get_running_loop().sock_sendall(client, sent)


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="the system has no TCP_USER_TIMEOUT")
async def test_an_answer_that_nobody_reads_is_given_up(
    temporal_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client asks on and on and reads nothing, so that every buffer between is full."""
    monkeypatch.setattr("api.server.UNREAD_SECONDS", 1)
    async with broker_with(temporal_client, 200) as broker, serving(broker) as api:
        client = socket.socket()
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.setblocking(False)
        await asyncio.get_running_loop().sock_connect(client, ("127.0.0.1", api.server.port))
        request = b"GET /v1/proxies HTTP/1.1\r\nHost: api\r\n\r\n" * 100
        async with asyncio.timeout(60):
            with pytest.raises(ConnectionError):
                await send_for_ever(client, request)
        client.close()
