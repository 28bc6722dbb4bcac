"""Leases that many requests share, one for each key."""

import asyncio
import logging
import time
from collections.abc import Hashable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from weakref import WeakValueDictionary

from egress_proxies_client._async import AsyncClient, AsyncLease
from egress_proxies_client.errors import EgressProxiesError
from egress_proxies_client.records import LeaseRequest, Result

logger = logging.getLogger("egress_proxies_client")


@dataclass(eq=False)
class SharedLease:
    """One lease and the requests that use it.

    Attributes:
        lease: The lease, renewed while it is in the pool.
        users: Requests that are on their way through its proxy.
        last_used: Monotonic seconds.
        reported: What has been reported on it.
    """

    lease: AsyncLease
    context: AbstractAsyncContextManager[AsyncLease]
    last_used: float
    users: int = 0
    reported: set[Result] = field(default_factory=set)


class LeasePool:
    """Holds leases; a lease is given back when a report has spent it and its last request is over.

    Args:
        client: The client that leases.
        idle_seconds: A lease that nobody used for so long is given back when another one is taken.
    """

    def __init__(self, client: AsyncClient, idle_seconds: float) -> None:
        self._client = client
        self._idle_seconds = idle_seconds
        self._current: dict[Hashable, SharedLease] = {}
        self._retired: set[SharedLease] = set()
        self._locks: WeakValueDictionary[Hashable, asyncio.Lock] = WeakValueDictionary()

    async def take(self, key: Hashable, request: LeaseRequest) -> SharedLease:
        """Return the lease of a key for one request; each is answered by ``give_back``.

        Args:
            key: What shares a lease.
            request: The lease to ask for when there is none yet.

        Raises:
            EgressProxiesError: There is no lease; the class says why.
        """
        lock = self._locks.setdefault(key, asyncio.Lock())
        async with lock:
            shared = self._current.get(key)
            if shared is not None and shared.lease.ended is not None:
                await self._close_unused(self._retire(key))
                shared = None
            if shared is None:
                await self._close_unused(*(self._retire(key) for key in self._idle()))
                context = self._client.lease(**request)
                lease = await context.__aenter__()
                shared = self._current[key] = SharedLease(lease, context, time.monotonic())
            shared.users += 1
            shared.last_used = time.monotonic()
            return shared

    async def give_back(self, key: Hashable, shared: SharedLease, result: Result | None) -> bool:
        """End one request's use; a result other than ``ok`` is reported once and spends the lease.

        Returns:
            Whether the result was reported by this call.
        """
        shared.users -= 1
        shared.last_used = time.monotonic()
        reported = result is not None and result not in shared.reported and await self._report(shared, result)
        if result not in (None, "ok") and self._current.get(key) is shared:
            self._retire(key)
        await self._close_unused(shared)
        return reported

    async def close(self) -> None:
        """Give every lease back, used or not."""
        everything = [*self._current.values(), *self._retired]
        self._current.clear()
        self._retired.clear()
        await asyncio.gather(*(shared.context.__aexit__(None, None, None) for shared in everything))

    async def _report(self, shared: SharedLease, result: Result) -> bool:
        shared.reported.add(result)
        try:
            await shared.lease.report(result)
        except EgressProxiesError as error:
            logger.warning("lease %s could not be reported on: %s", shared.lease.id, error)
            return False
        return True

    def _idle(self) -> list[Hashable]:
        oldest = time.monotonic() - self._idle_seconds
        return [key for key, shared in self._current.items() if not shared.users and shared.last_used < oldest]

    def _retire(self, key: Hashable) -> SharedLease:
        shared = self._current.pop(key)
        self._retired.add(shared)
        return shared

    async def _close_unused(self, *leases: SharedLease) -> None:
        over = self._retired & {shared for shared in leases if not shared.users}
        self._retired -= over
        await asyncio.gather(*(shared.context.__aexit__(None, None, None) for shared in over))
