"""Name look-ups that cannot hold up each other."""

import asyncio
import ipaddress
import socket
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

THREADS = 64
"""How many names may hang in look-ups before others wait; one thread per name, started when first needed."""


@dataclass(frozen=True)
class Address:
    """One address to connect to, in the shape that ``socket.connect`` takes."""

    family: socket.AddressFamily
    sockaddr: tuple[Any, ...]


class Resolver:
    """Looks names up in threads of its own, each name once at a time.

    ``getaddrinfo`` cannot be cancelled: a caller that gives up leaves its thread behind. Therefore the threads are not
    those of the event loop's default executor, and a further look-up of a name that hangs joins the one that runs.
    Results are not kept: every probe sees the name as it is now. For use on one event loop.
    """

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="resolve")
        self._running: dict[tuple[str, int], asyncio.Future[list[Address]]] = {}

    def close(self) -> None:
        """Give up what has not started; threads end with their look-up."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def resolve(self, host: str, port: int) -> list[Address]:
        """Return the addresses of a host in the system's order of preference; an IP address needs no thread.

        Raises:
            OSError: The name does not resolve (``socket.gaierror``) or cannot be a name.
        """
        literal = _literal(host, port)
        if literal is not None:
            return [literal]
        key = (host, port)
        lookup = self._running.get(key)
        if lookup is None:
            lookup = asyncio.get_running_loop().run_in_executor(self._threads, _look_up, host, port)
            self._running[key] = lookup
            lookup.add_done_callback(lambda _: self._running.pop(key))
        return await asyncio.shield(lookup)


def _literal(host: str, port: int) -> Address | None:
    try:
        ip = ipaddress.ip_address(host)
    except ValueError:
        return None
    if isinstance(ip, ipaddress.IPv4Address):
        return Address(socket.AF_INET, (host, port))
    return None if ip.scope_id else Address(socket.AF_INET6, (host, port, 0, 0))


def _look_up(host: str, port: int) -> list[Address]:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except ValueError as error:
        raise OSError("not a valid host name") from error
    return [Address(family, sockaddr) for family, _, _, _, sockaddr in found]
