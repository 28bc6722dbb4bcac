"""Waiting for what happens by itself."""

import asyncio
import time
from collections.abc import Callable


async def until(condition: Callable[[], bool], seconds: float = 20.0) -> None:
    """Return once the condition holds; fail when it does not in time."""
    deadline = time.monotonic() + seconds
    while True:
        if condition():
            return
        assert time.monotonic() < deadline, "it did not happen in time"
        await asyncio.sleep(0.01)
