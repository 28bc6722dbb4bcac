"""Waiting for what happens by itself."""

import asyncio
import time
from collections.abc import Awaitable, Callable


async def wait_until(condition: Callable[[], Awaitable[bool]], seconds: float = 30.0) -> None:
    """Return once the condition holds; fail when it does not in time."""
    deadline = time.monotonic() + seconds
    while True:
        if await condition():
            return
        assert time.monotonic() < deadline, "it did not happen in time"
        await asyncio.sleep(0.02)
