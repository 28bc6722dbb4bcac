"""Heartbeats for activities that wait, so that the death of their worker is noticed within seconds."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from temporalio import activity


@asynccontextmanager
async def heartbeating(details: Callable[[], Sequence[Any]] = tuple) -> AsyncIterator[None]:
    """Heartbeat three times per heartbeat timeout while the body runs.

    The loop that beats is the one the body runs on: a body that blocks it is found out by the missing beats.

    Args:
        details: What each beat carries to the next attempt; without it they carry nothing.
    """
    timeout = activity.info().heartbeat_timeout
    if timeout is None:
        yield
        return

    async def beat() -> None:
        while True:
            activity.heartbeat(*details())
            await asyncio.sleep(timeout.total_seconds() / 3)

    beating = asyncio.create_task(beat())
    try:
        yield
    finally:
        beating.cancel()
