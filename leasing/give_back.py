"""Gives back what may have been granted without anybody learning of it."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from model.errors import UnavailableError

logger = logging.getLogger(__name__)

LEASES_LIMIT = 100_000
"""Leases remembered at most; the oldest are left to their TTL."""
_AT_ONCE = 200
_PAUSE = 1.0

Release = Callable[[str], Awaitable[None]]
"""Gives one lease back; raises UnavailableError when the broker does not answer."""


class GiveBacks:
    """Lease ids that are given back in the background, until the broker has taken them or the lease has ended."""

    def __init__(self, release: Release) -> None:
        self._release = release
        self._until: dict[str, float] = {}
        self._task: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        return len(self._until)

    def add(self, lease_id: str, until: float) -> None:
        """Give a lease back, trying until this loop time, when it has ended by itself."""
        self._until[lease_id] = until
        if len(self._until) > LEASES_LIMIT:
            del self._until[next(iter(self._until))]
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run(), name="lease-give-back")

    async def drain(self, timeout: float) -> None:
        """Wait until all is given back, at most so many seconds, and stop; the rest ends by its TTL."""
        if self._task is None:
            return
        await asyncio.wait([self._task], timeout=timeout)
        if not self._task.done():
            logger.warning("leases that nobody holds are left to their TTL: %d", len(self._until))
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while self._until:
            now = asyncio.get_running_loop().time()
            for lease_id in [lease_id for lease_id, until in self._until.items() if until <= now]:
                del self._until[lease_id]
            some = list(self._until)[:_AT_ONCE]
            results = await asyncio.gather(*map(self._try, some))
            if some and not any(results):
                await asyncio.sleep(_PAUSE)

    async def _try(self, lease_id: str) -> bool:
        try:
            await self._release(lease_id)
        except UnavailableError:
            return False
        self._until.pop(lease_id, None)
        return True
