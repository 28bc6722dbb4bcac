"""Probe requests with short deadlines, and waiting with one."""

import asyncio
import time
from collections.abc import Callable

from model.probe import ProbeResult
from probing.probe import Prober, ProbeRequest

TIMEOUT = 1.0


def request(
    port: int, url: str, *, host: str = "127.0.0.1", timeout: float = TIMEOUT, expected: tuple[int, ...] = (200, 204)
) -> ProbeRequest:
    return ProbeRequest(
        proxy_host=host, proxy_port=port, url=url, timeout_seconds=timeout, expected_status_codes=expected
    )


async def eventually(holds: Callable[[], bool], seconds: float = 10.0) -> None:
    """Wait until something holds; fail when it does not in time."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    while not holds():
        assert loop.time() < deadline
        await asyncio.sleep(0.01)


async def timed(prober: Prober, port: int, url: str) -> ProbeResult:
    """Probe, and hold the deadline: the timeout, with a second for the rest."""
    started = time.monotonic()
    result = await prober.probe(request(port, url))
    assert time.monotonic() - started < TIMEOUT + 1
    return result
