"""Redis's protocol (RESP 2), as little of it as scripts need: one connection, every request pipelined.

Requests of one turn of the event loop leave in one write, so that Redis syncs them to disk together: the best a
client can do for it. Source: the protocol's specification, redis.io/docs/latest/develop/reference/protocol-spec.
"""

import asyncio
from collections import deque
from typing import cast

Reply = int | bytes | list["Reply"] | None

_END = b"\r\n"


class RedisError(Exception):
    """Redis answered with an error, or the connection broke."""


class RedisConnection(asyncio.Protocol):
    """Sends commands; replies come in the order of the commands."""

    def __init__(self) -> None:
        self._waiting: deque[asyncio.Future[Reply]] = deque()
        self._outgoing: list[bytes] = []
        self._received = b""
        self._transport: asyncio.Transport | None = None

    @classmethod
    async def connect(cls, host: str, port: int) -> "RedisConnection":
        """Connect."""
        _, connection = await asyncio.get_running_loop().create_connection(cls, host, port)
        return connection

    def ask(self, *words: bytes) -> "asyncio.Future[Reply]":
        """Send a command; the future raises RedisError when Redis answers with an error."""
        loop = asyncio.get_running_loop()
        if not self._outgoing:
            loop.call_soon(self._flush)
        self._outgoing.append(encode(words))
        future: asyncio.Future[Reply] = loop.create_future()
        self._waiting.append(future)
        return future

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._received += data
        place = 0
        while (found := parse(self._received, place)) is not None:
            reply, place = found
            future = self._waiting.popleft()
            if future.done():
                continue
            if isinstance(reply, RedisError):
                future.set_exception(reply)
            else:
                future.set_result(reply)
        self._received = self._received[place:]

    def connection_lost(self, exc: Exception | None) -> None:
        for future in self._waiting:
            if not future.done():
                future.set_exception(RedisError(f"the connection to Redis broke: {exc}"))

    def _flush(self) -> None:
        if self._transport is not None:
            self._transport.write(b"".join(self._outgoing))
        self._outgoing.clear()


def encode(words: tuple[bytes, ...]) -> bytes:
    """Return a command as it travels."""
    return b"*%d\r\n%b" % (len(words), b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in words))


def parse(data: bytes, place: int) -> tuple[Reply | RedisError, int] | None:
    """Read one reply at ``place``; returns it with the place after it, or None while some of it is missing."""
    end = data.find(_END, place)
    if end < 0:
        return None
    kind, line, place = data[place : place + 1], data[place + 1 : end], end + 2
    if kind == b":":
        return int(line), place
    if kind == b"+":
        return line, place
    if kind == b"-":
        return RedisError(line.decode("utf-8", "replace")), place
    length = int(line)
    if length < 0:
        return None, place
    if kind == b"$":
        after = place + length + 2
        return (data[place : place + length], after) if len(data) >= after else None
    return _parse_array(data, place, length)


def _parse_array(data: bytes, place: int, length: int) -> tuple[Reply, int] | None:
    replies: list[Reply] = []
    for _ in range(length):
        found = parse(data, place)
        if found is None:
            return None
        reply, place = found
        if isinstance(reply, RedisError):
            raise reply
        replies.append(reply)
    return replies, place
