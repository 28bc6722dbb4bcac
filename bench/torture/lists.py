"""What ``GET /v1/proxies`` says at the end."""

import asyncio
import time
from typing import Any

import aiohttp

from bench.load import HOST

_POLL_SECONDS = 0.5
_REQUEST_SECONDS = 10.0


async def until_free(port: int, deadline: float) -> list[str]:
    """Wait until no slot is taken: what nobody gave back ends by its TTL.

    Returns:
        The proxies with leases after ``deadline`` seconds, a sentence each.
    """
    end = time.monotonic() + deadline
    while True:
        taken = [proxy for proxy in await _proxies(port) if proxy["activeLeases"]]
        if not taken or time.monotonic() > end:
            return [f"{proxy['id']} still has {proxy['activeLeases']} leases" for proxy in taken]
        await asyncio.sleep(_POLL_SECONDS)


async def _proxies(port: int) -> list[dict[str, Any]]:
    timeout = aiohttp.ClientTimeout(total=_REQUEST_SECONDS)
    async with (
        aiohttp.ClientSession(timeout=timeout, raise_for_status=True) as session,
        session.get(f"http://{HOST}:{port}/v1/proxies") as response,
    ):
        proxies: list[dict[str, Any]] = (await response.json())["proxies"]
        return proxies
