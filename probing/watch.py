"""Probing one proxy until something about it changes."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from model.health import HealthChange, HealthState, observe
from model.probe import ProbeResult
from model.proxy import HealthCheck
from probing.probe import ProbeRequest

HEARTBEAT_SECONDS = 10.0
"""Longest time without a heartbeat, whatever the interval and the timeout of the probes."""


class Probes(Protocol):
    """What makes the probes: a ``Prober``, or one that also measures."""

    def probe(self, request: ProbeRequest) -> Awaitable[ProbeResult]:
        """Probe once."""


@dataclass(frozen=True, kw_only=True)
class WatchTarget:
    """One proxy and how to probe it.

    Attributes:
        host: DNS name or IP address, IPv6 without brackets.
    """

    namespace: str
    name: str
    uid: str
    host: str
    port: int
    check: HealthCheck

    @property
    def request(self) -> ProbeRequest:
        """The probe to make."""
        return ProbeRequest(
            proxy_host=self.host,
            proxy_port=self.port,
            url=self.check.probe_url,
            timeout_seconds=self.check.timeout_seconds,
            expected_status_codes=self.check.expected_status_codes,
        )


class HealthWatch:
    """Probes at the interval, one probe at a time.

    Probes start one interval apart; after one that took longer, and when woken, the next starts at once. A proxy that
    was never probed is probed at once; any other waits a random part of the interval first, so that a worker that
    starts with a thousand watches spreads them. The event loop's monotonic clock keeps the pace; the wall clock dates
    reports.

    Args:
        prober: Makes the probes.
        target: The proxy.
        state: What is known from earlier watches.
        on_probe: Told of every result.
        clock: Wall clock in epoch seconds.
        spread: Returns the part of the interval to wait before the first probe, 0 to 1.
    """

    def __init__(
        self,
        *,
        prober: Probes,
        target: WatchTarget,
        state: HealthState,
        on_probe: Callable[[ProbeResult], None],
        clock: Callable[[], float] = time.time,
        spread: Callable[[], float] = random.random,
    ) -> None:
        self._prober = prober
        self._target = target
        self._state = state
        self._on_probe = on_probe
        self._clock = clock
        self._spread = spread
        self._woken = asyncio.Event()

    def wake(self) -> None:
        """Probe now, or once more as soon as the probe that runs has ended."""
        self._woken.set()

    async def run(self, heartbeat: Callable[[HealthState], None]) -> tuple[HealthState, HealthChange]:
        """Probe until there is something to tell; return the state to go on with and what to tell.

        Args:
            heartbeat: Given the latest state after every probe without news and at least every ``HEARTBEAT_SECONDS``,
                on this event loop and in this task's context.
        """
        loop = asyncio.get_running_loop()
        interval = self._target.check.interval_seconds
        request = self._target.request
        start = loop.time() + self._first_wait(interval)
        with self._heartbeats(heartbeat) as beat:
            while True:
                await self._sleep(start - loop.time())
                start = loop.time() + interval
                result = await self._prober.probe(request)
                self._on_probe(result)
                state, change = observe(self._state, self._target.check, result, self._clock())
                if change is not None:
                    # No heartbeat says that it was told: where the result is lost, the next watch tells it anew.
                    return state, change
                self._state = state
                beat()

    async def _sleep(self, seconds: float) -> None:
        if seconds > 0 and not self._woken.is_set():
            # A timer that wakes is cheaper than a task with a timeout.
            timer = asyncio.get_running_loop().call_later(seconds, self._woken.set)
            try:
                await self._woken.wait()
            finally:
                timer.cancel()
        else:
            await asyncio.sleep(0)
        self._woken.clear()

    def _first_wait(self, interval: float) -> float:
        return 0.0 if self._state == HealthState() else interval * self._spread()

    @contextmanager
    def _heartbeats(self, heartbeat: Callable[[HealthState], None]) -> Iterator[Callable[[], None]]:
        """Beat whenever the yielded function has not been called for a while; a timer is cheaper than a task."""
        loop = asyncio.get_running_loop()
        timer: asyncio.TimerHandle | None = None

        def beat() -> None:
            nonlocal timer
            if timer is not None:
                timer.cancel()
            timer = loop.call_later(HEARTBEAT_SECONDS, beat)
            heartbeat(self._state)

        timer = loop.call_later(HEARTBEAT_SECONDS, beat)
        try:
            yield beat
        finally:
            timer.cancel()
