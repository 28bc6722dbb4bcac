"""Clients of the lease API, as light as Python allows, in a process of their own.

``python -m bench.load PLAN`` with a ``LoadPlan`` as JSON prints a ``Load`` as JSON. Each client has one connection that
is kept alive and never has more than one request on its way. Only bare sockets: a real HTTP client would cost more than
the server it measures.
"""

import asyncio
import dataclasses
import json
import sys
import time
from dataclasses import dataclass, field
from typing import cast

from bench.load_scripts import LoadError, Script, script

HOST = "127.0.0.1"
_LENGTH = b"content-length:"
_LAST_ANSWER_SECONDS = 10.0
_AGAIN_SECONDS = 0.05


@dataclass(frozen=True, kw_only=True)
class LoadPlan:
    """What the clients do.

    Attributes:
        script: Which requests they send (``bench.load_scripts``).
        targets: How many sites the refused requests name in turn.
        survive: Whether 503 is asked again instead of ending the run.
    """

    port: int
    clients: int
    warm_up: float
    seconds: float
    script: str = "leases"
    targets: int = 1
    survive: bool = False


@dataclass(kw_only=True)
class Load:
    """What the clients saw.

    Attributes:
        seconds: How long was measured.
        millis: How long each request took that is measured and was answered within that time.
        longest_gap: Longest time between two such answers, in seconds.
        unavailable: How many requests were answered with 503.
        cpu_seconds: What the clients themselves cost, warm-up included.
    """

    seconds: float
    millis: list[float] = field(default_factory=list)
    longest_gap: float = 0.0
    unavailable: int = 0
    cpu_seconds: float = 0.0


class Window:
    """The measured time: answers before it are warm-up, and after it no client asks again."""

    def __init__(self, warm_up: float, seconds: float) -> None:
        self.load = Load(seconds=seconds)
        self._begin = time.perf_counter() + warm_up
        self._end = self._begin + seconds
        self._last = self._begin

    @property
    def is_over(self) -> bool:
        """Whether it is time to stop."""
        return time.perf_counter() >= self._end

    def note(self, asked_at: float) -> None:
        """Take in that a request has been answered just now."""
        now = time.perf_counter()
        if self._begin <= now < self._end:
            self.load.millis.append((now - asked_at) * 1000)
            self.load.longest_gap = max(self.load.longest_gap, now - self._last)
            self._last = now

    def close(self) -> None:
        """Count the time since the last answer as a gap too."""
        self.load.longest_gap = max(self.load.longest_gap, self._end - self._last)


class LoadClient(asyncio.Protocol):
    """Follows its script until the window is over; ``done`` resolves when it holds nothing any more."""

    def __init__(self, window: Window, requests: Script, *, survive: bool) -> None:
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._window = window
        self._script = requests
        self._survive = survive
        self._received = b""
        self._asked_at = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._ask()

    def data_received(self, data: bytes) -> None:
        self._received += data
        answer = take_answer(self._received)
        if answer is None:
            return
        self._received = b""
        status, body = answer
        if status == b"503" and self._survive:
            self._window.load.unavailable += 1
            asyncio.get_running_loop().call_later(_AGAIN_SECONDS, self._ask)
            return
        try:
            if self._script.take(status, body):
                self._window.note(self._asked_at)
        except LoadError as error:
            self._end(error)
            return
        if self._window.is_over and self._script.is_clean:
            self._end(None)
        else:
            self._ask()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end(LoadError(f"the server closed the connection: {exc}"))

    def _ask(self) -> None:
        if self.done.done():
            return
        self._asked_at = time.perf_counter()
        self._transport.write(self._script.request())

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


async def run(plan: LoadPlan) -> Load:
    """Run the clients.

    Raises:
        LoadError: A request was not answered as it should be.
        TimeoutError: An answer did not come.
    """
    loop = asyncio.get_running_loop()
    window = Window(plan.warm_up, plan.seconds)

    def client(number: int) -> LoadClient:
        return LoadClient(window, script(plan.script, number, plan.targets), survive=plan.survive)

    started = [
        await loop.create_connection(lambda number=number: client(number), HOST, plan.port)  # type: ignore[misc]
        for number in range(plan.clients)
    ]
    async with asyncio.timeout(plan.warm_up + plan.seconds + _LAST_ANSWER_SECONDS):
        await asyncio.gather(*(one.done for _, one in started))
    window.close()
    window.load.cpu_seconds = time.process_time()
    return window.load


def main(arguments: list[str]) -> int:
    """Run the clients and print what they saw."""
    try:
        load = asyncio.run(run(LoadPlan(**json.loads(arguments[0]))))
    except (LoadError, OSError) as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 1
    print(json.dumps(dataclasses.asdict(load)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
