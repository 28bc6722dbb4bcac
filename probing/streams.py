"""A TCP connection, and TLS on top of one that already stands."""

import asyncio
import socket
import ssl
from collections.abc import Callable
from typing import Protocol, TypeVar

from probing.resolver import Address

READ_SIZE = 16 * 1024
Result = TypeVar("Result")


class Stream(Protocol):
    """Bytes in both directions. Both calls raise OSError when the connection breaks."""

    async def read(self) -> bytes:
        """Return what has arrived, at least a byte; nothing means the end."""

    async def write(self, data: bytes) -> None:
        """Send everything."""


class TcpStream:
    """A connected socket. Plain sockets instead of asyncio's streams: nothing runs on or lingers after ``close``."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._loop = asyncio.get_running_loop()

    async def read(self) -> bytes:
        """Return what has arrived, at least a byte; nothing means the end."""
        return await self._loop.sock_recv(self._socket, READ_SIZE)

    async def write(self, data: bytes) -> None:
        """Send everything."""
        await self._loop.sock_sendall(self._socket, data)

    def close(self) -> None:
        """Close the socket at once."""
        self._socket.close()


class TlsStream:
    """TLS over another stream. In memory, so that nothing received before the handshake can pass for decrypted data."""

    def __init__(self, below: Stream, context: ssl.SSLContext, server_name: str) -> None:
        self._below = below
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname=server_name)

    async def handshake(self) -> None:
        """Agree on keys and verify the certificate; raises ``ssl.SSLError`` where that fails."""
        await self._run(self._tls.do_handshake)

    async def read(self) -> bytes:
        """Return what has arrived, at least a byte; nothing means the end, with or without TLS's own farewell."""
        try:
            return await self._run(lambda: self._tls.read(READ_SIZE))
        except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
            return b""

    async def write(self, data: bytes) -> None:
        """Send everything."""
        await self._run(lambda: self._tls.write(data))

    async def _run(self, step: Callable[[], Result]) -> Result:
        while True:
            try:
                result = step()
            except ssl.SSLWantReadError:
                await self._flush()
                await self._receive()
            except ssl.SSLError:
                await self._flush()
                raise
            else:
                await self._flush()
                return result

    async def _flush(self) -> None:
        if self._outgoing.pending:
            await self._below.write(self._outgoing.read())

    async def _receive(self) -> None:
        data = await self._below.read()
        if data:
            self._incoming.write(data)
        else:
            self._incoming.write_eof()


async def connect(addresses: list[Address], deadline: float) -> TcpStream:
    """Connect to the first address that takes the connection.

    Each address gets an even share of the time that is left, so that one that drops packets leaves time for the next.

    Args:
        addresses: At least one.
        deadline: In the event loop's time. It only divides the time; the caller enforces it.

    Raises:
        OSError: What the last address answered.
    """
    loop = asyncio.get_running_loop()
    for left in range(len(addresses), 1, -1):
        share = (deadline - loop.time()) / left
        try:
            async with asyncio.timeout(share):
                return await _connect(addresses[-left])
        except OSError:
            # The next address decides; what the last one says is raised.
            continue
    return await _connect(addresses[-1])


async def _connect(address: Address) -> TcpStream:
    sock = socket.socket(address.family, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        await asyncio.get_running_loop().sock_connect(sock, address.sockaddr)
    except BaseException:
        sock.close()
        raise
    return TcpStream(sock)
