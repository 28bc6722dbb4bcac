"""Clients that acquire and release leases, as light as Python allows, in a process of their own.

``python -m bench.load PORT CLIENTS WARM_UP_SECONDS SECONDS`` prints a ``Load`` as JSON. Each client has one connection
that is kept alive and never has more than one request on its way. Only bare sockets: a real HTTP client would cost more
than the server it measures.
"""

import asyncio
import dataclasses
import json
import sys
import time
from dataclasses import dataclass, field
from typing import cast

_HOST = "127.0.0.1"
_BODY = b'{"target":"shop.example.com","ttlSeconds":60}'
_ACQUIRE = (
    b"POST /v1/leases HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\n"
    b"Content-Length: %d\r\n\r\n%b" % (len(_BODY), _BODY)
)
_RELEASE = b"DELETE /v1/leases/%b HTTP/1.1\r\nHost: bench\r\n\r\n"
_LENGTH = b"content-length:"
_LAST_ANSWER_SECONDS = 10.0


class LoadError(Exception):
    """A request was answered with something else than success."""


@dataclass(kw_only=True)
class Load:
    """What the clients saw.

    Attributes:
        seconds: How long was measured.
        acquire_millis: How long each acquire took that was answered within the measured time.
        cpu_seconds: What the clients themselves cost, warm-up included.
    """

    seconds: float
    acquire_millis: list[float] = field(default_factory=list)
    cpu_seconds: float = 0.0


class Window:
    """The measured time: answers before it are warm-up, and after it no client asks again."""

    def __init__(self, warm_up: float, seconds: float) -> None:
        self.load = Load(seconds=seconds)
        self._begin = time.perf_counter() + warm_up
        self._end = self._begin + seconds

    @property
    def is_over(self) -> bool:
        """Whether it is time to stop."""
        return time.perf_counter() >= self._end

    def note(self, asked_at: float) -> None:
        """Take in that an acquire has been answered just now."""
        now = time.perf_counter()
        if self._begin <= now < self._end:
            self.load.acquire_millis.append((now - asked_at) * 1000)


class LeaseClient(asyncio.Protocol):
    """Acquires and releases in turn until the window is over; ``done`` resolves after the last release."""

    def __init__(self, window: Window) -> None:
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._window = window
        self._received = b""
        self._asked_at = 0.0
        self._holds_lease = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._acquire()

    def data_received(self, data: bytes) -> None:
        self._received += data
        answer = take_answer(self._received)
        if answer is None:
            return
        self._received = b""
        status, body = answer
        if status not in (b"201", b"204"):
            self._end(LoadError(f"a request was answered with {status.decode()}: {body[:300]!r}"))
        elif not self._holds_lease:
            self._window.note(self._asked_at)
            self._holds_lease = True
            self._transport.write(_RELEASE % json.loads(body)["leaseID"].encode())
        else:
            self._holds_lease = False
            if self._window.is_over:
                self._end(None)
            else:
                self._acquire()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end(LoadError(f"the server closed the connection: {exc}"))

    def _acquire(self) -> None:
        self._asked_at = time.perf_counter()
        self._transport.write(_ACQUIRE)

    def _end(self, error: LoadError | None) -> None:
        if self.done.done():
            return
        if error is None:
            self.done.set_result(None)
        else:
            self.done.set_exception(error)
        self._transport.close()


def take_answer(received: bytes) -> tuple[bytes, bytes] | None:
    """Return status and body of a complete HTTP answer, or None while some of it is missing."""
    head, blank, body = received.partition(b"\r\n\r\n")
    if not blank:
        return None
    place = head.lower().find(_LENGTH)
    length = int(head[place + len(_LENGTH) :].split(b"\r\n", 1)[0]) if place >= 0 else 0
    return (head[9:12], body) if len(body) >= length else None


async def run(port: int, clients: int, warm_up: float, seconds: float) -> Load:
    """Run the clients.

    Raises:
        LoadError: A request was not answered with success.
        TimeoutError: An answer did not come.
    """
    loop = asyncio.get_running_loop()
    window = Window(warm_up, seconds)
    started = [await loop.create_connection(lambda: LeaseClient(window), _HOST, port) for _ in range(clients)]
    async with asyncio.timeout(warm_up + seconds + _LAST_ANSWER_SECONDS):
        await asyncio.gather(*(client.done for _, client in started))
    window.load.cpu_seconds = time.process_time()
    return window.load


def main(arguments: list[str]) -> int:
    """Run the clients and print what they saw."""
    port, clients = int(arguments[0]), int(arguments[1])
    try:
        load = asyncio.run(run(port, clients, float(arguments[2]), float(arguments[3])))
    except (LoadError, OSError) as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 1
    print(json.dumps(dataclasses.asdict(load)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
