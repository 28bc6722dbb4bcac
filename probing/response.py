"""The little of HTTP/1 that a probe has to read, with a bound on everything."""

import http
import re
from collections.abc import Mapping
from dataclasses import dataclass

from probing.faults import InvalidResponseError
from probing.streams import Stream

HEAD_LIMIT = 32 * 1024
"""Longest status line and headers, in bytes, interim responses included."""

_STATUS_LINE = re.compile(rb"HTTP/\d(?:\.\d)? +(\d{3})(?:[ \t].*)?")
_END_OF_HEAD = re.compile(rb"\r?\n\r?\n")
_START = b"HTTP/"
_LONGEST_END = 4


@dataclass(frozen=True, kw_only=True)
class Head:
    """Status and headers of a response; header names in lower case, the last of a name wins."""

    status: int
    headers: Mapping[str, str]


async def read_head(stream: Stream) -> tuple[Head, bytes]:
    """Read the head of the final response and return it with the bytes that came after it.

    Interim responses (1xx but 101) are passed over.

    Raises:
        InvalidResponseError: What came is no response, or too long.
        OSError: The connection broke or ended before the head was complete.
    """
    data = b""
    room = HEAD_LIMIT
    while True:
        raw, data = await _read_raw_head(stream, data, room)
        room -= len(raw)
        head = parse_head(raw)
        if not 100 <= head.status < 200 or head.status == http.HTTPStatus.SWITCHING_PROTOCOLS:
            return head, data


async def _read_raw_head(stream: Stream, received: bytes, room: int) -> tuple[bytes, bytes]:
    buffer = bytearray(received)
    searched = 0
    while True:
        if not buffer.startswith(_START[: len(buffer)]):
            raise InvalidResponseError("something that is no HTTP response")
        end = _END_OF_HEAD.search(buffer, searched)
        if end and end.end() <= room:
            return bytes(buffer[: end.start()]), bytes(buffer[end.end() :])
        if len(buffer) > room:
            raise InvalidResponseError(f"more than {HEAD_LIMIT} bytes of headers")
        searched = max(0, len(buffer) - _LONGEST_END)
        more = await stream.read()
        if not more:
            raise ConnectionError("connection closed")
        buffer += more


def parse_head(raw: bytes) -> Head:
    """Parse a status line and headers; header lines without a colon are passed over.

    Raises:
        InvalidResponseError: The first line is no status line.
    """
    first, *lines = raw.split(b"\n")
    match = _STATUS_LINE.fullmatch(first.rstrip(b"\r"))
    if match is None:
        raise InvalidResponseError("a malformed HTTP status line")
    pairs = (line.decode("latin-1").partition(":") for line in lines)
    return Head(
        status=int(match[1]),
        headers={name.strip().lower(): value.strip() for name, colon, value in pairs if colon},
    )


def status_text(status: int) -> str:
    """Return the status with its registered phrase; never the peer's own, which may say anything."""
    try:
        return f"{status} {http.HTTPStatus(status).phrase}"
    except ValueError:
        return str(status)


async def read_body(stream: Stream, head: Head, received: bytes, limit: int) -> bytes | None:
    """Return the body of a response to a request with ``Connection: close``, or None when it is longer than ``limit``.

    Raises:
        OSError: The connection broke or ended before the body was complete.
        InvalidResponseError: The length or a chunk is malformed.
    """
    if head.status in (http.HTTPStatus.NO_CONTENT, http.HTTPStatus.NOT_MODIFIED):
        return b""
    if head.headers.get("transfer-encoding", "").lower() == "chunked":
        return await _read_chunked(stream, received, limit)
    length = head.headers.get("content-length")
    if length is None:
        return await _read_to_end(stream, received, limit)
    if not (length.isascii() and length.isdigit() and len(length) < 20):
        raise InvalidResponseError("a malformed Content-Length")
    return await _read_length(stream, received, int(length)) if int(length) <= limit else None


async def _read_to_end(stream: Stream, received: bytes, limit: int) -> bytes | None:
    body = bytearray(received)
    while len(body) <= limit:
        more = await stream.read()
        if not more:
            return bytes(body)
        body += more
    return None


async def _read_length(stream: Stream, received: bytes, length: int) -> bytes:
    body = bytearray(received)
    while len(body) < length:
        more = await stream.read()
        if not more:
            raise ConnectionError("connection closed")
        body += more
    return bytes(body[:length])


async def _read_chunked(stream: Stream, received: bytes, limit: int) -> bytes | None:
    source = _Lines(stream, received)
    body = b""
    while True:
        size_text = (await source.line()).partition(b";")[0].strip()
        if not re.fullmatch(rb"[0-9A-Fa-f]{1,8}", size_text):
            raise InvalidResponseError("a malformed chunk")
        size = int(size_text, 16)
        if size == 0:
            return body
        if len(body) + size > limit:
            return None
        body += await source.exactly(size)
        await source.line()


class _Lines:
    """Reads lines and counted bytes from a stream."""

    _LONGEST_LINE = 256

    def __init__(self, stream: Stream, received: bytes) -> None:
        self._stream = stream
        self._buffer = bytearray(received)

    async def line(self) -> bytes:
        while b"\n" not in self._buffer[: self._LONGEST_LINE]:
            if len(self._buffer) >= self._LONGEST_LINE:
                raise InvalidResponseError("a malformed chunk")
            await self._more()
        return await self.exactly(self._buffer.index(b"\n") + 1)

    async def exactly(self, size: int) -> bytes:
        while len(self._buffer) < size:
            await self._more()
        taken = bytes(self._buffer[:size])
        del self._buffer[:size]
        return taken

    async def _more(self) -> None:
        more = await self._stream.read()
        if not more:
            raise ConnectionError("connection closed")
        self._buffer += more
