"""Waiting for something to become so, with a deadline."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

Found = TypeVar("Found")


async def eventually(
    look: Callable[[], Awaitable[Found]],
    wanted: Callable[[Found], bool] = bool,
    within: float = 30.0,
    *,
    pause: float = 0.1,
) -> Found:
    """Look until what is seen is wanted, and return it; fail with what was seen last.

    Args:
        look: Sees something.
        wanted: Whether that is it.
        within: Seconds to go on for.
        pause: Seconds between two looks; a look that costs much needs more.
    """
    deadline = time.monotonic() + within
    while True:
        found = await look()
        if wanted(found):
            return found
        if time.monotonic() > deadline:
            raise AssertionError(f"not so within {within:.0f} s; seen last: {found!r}")
        await asyncio.sleep(pause)
