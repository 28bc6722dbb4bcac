"""How many leases still run on instances that are to go: many may ask, the broker is asked once."""

from collections import Counter
from collections.abc import Awaitable, Callable

from leasing.single_flight import SingleFlight
from model.lease_list import LeasesOn

Fetch = Callable[[list[str]], Awaitable[dict[str, LeasesOn] | None]]
"""Asks the broker about some proxies."""


class DrainCounts:
    """Counts by proxy; all that are waited for at the same time share a query."""

    def __init__(self, fetch: Fetch) -> None:
        self._fetch = fetch
        self._wanted: Counter[str] = Counter()
        self._counts: SingleFlight[dict[str, LeasesOn] | None] = SingleFlight(self._fetch_wanted)

    async def ask(self, proxy_id: str, uid: str, instance: str) -> int | None:
        """Return the running leases on exactly this instance, None while the broker cannot know.

        Raises:
            UnavailableError: The broker does not answer.
        """
        self._wanted[proxy_id] += 1
        try:
            counts = await self._counts.ask()
        finally:
            self._wanted[proxy_id] -= 1
            if not self._wanted[proxy_id]:
                del self._wanted[proxy_id]
        if counts is None:
            return None
        known = counts.get(proxy_id)
        return known.leases if known is not None and (known.uid, known.instance) == (uid, instance) else 0

    async def _fetch_wanted(self) -> dict[str, LeasesOn] | None:
        return await self._fetch(list(self._wanted))
