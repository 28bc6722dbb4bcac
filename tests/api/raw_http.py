"""Sends bytes as they are, and reads what comes back as a strict client would."""

import asyncio
import json
from contextlib import suppress
from typing import NamedTuple


class RawAnswer(NamedTuple):
    """One answer; ``status`` 0: none came, ``closed`` says whether the server ended the connection instead."""

    status: int
    headers: dict[str, str]
    body: bytes
    closed: bool = False

    @property
    def code(self) -> str:
        """The machine code of the envelope, or "" where there is no envelope."""
        try:
            envelope = json.loads(self.body)
        except ValueError:
            return ""
        complete = isinstance(envelope, dict) and isinstance(envelope.get("message"), str)
        return str(envelope.get("error", "")) if complete else ""


async def exchange(port: int, sent: bytes, patience: float) -> RawAnswer:
    """Send bytes on a connection of their own and return the first final answer.

    Args:
        port: On loopback.
        sent: Anything.
        patience: Seconds to wait for an answer that may never come, as for half a request.
    """
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        # The server may answer and close before it has read everything.
        with suppress(ConnectionError):
            writer.write(sent)
            await writer.drain()
        try:
            async with asyncio.timeout(patience):
                return await _read(reader, no_body=sent[:5] == b"HEAD ")
        except TimeoutError:
            return RawAnswer(0, {}, b"")
        except (asyncio.IncompleteReadError, ConnectionError):
            return RawAnswer(0, {}, b"", closed=True)
    finally:
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()


async def _read(reader: asyncio.StreamReader, *, no_body: bool) -> RawAnswer:
    while True:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        first, *lines = head.split("\r\n")
        status = int(first.split()[1])
        if status >= 200:
            break
    headers = dict(line.split(": ", 1) for line in lines if line)
    if no_body or status in (204, 304):
        return RawAnswer(status, headers, b"")
    return RawAnswer(status, headers, await reader.readexactly(int(headers["Content-Length"])))
