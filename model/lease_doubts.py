"""Proxies that a crawler could not reach anything through, until a probe has looked."""

from collections.abc import Iterator

from model import lease_budget
from model.deadlines import Deadlines
from model.lease_budget import Budget
from model.lease_index import LeasableProxy

SUSPENSION_MILLIS = 30_000
"""How long a proxy in doubt is not handed out when no probe says anything: nobody may be there to probe it."""


class Doubts:
    """The proxies in doubt. A doubt begins once and lasts until the proxy is known to work; a suspension ends by time.

    So a crawler whose own network is broken takes no proxy out for longer than a probe needs.
    """

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._proxies: dict[str, LeasableProxy] = {}
        self._suspended: Deadlines[str] = Deadlines()

    def proxy_ids(self) -> list[str]:
        """Return the ids of all in doubt, in order."""
        return sorted(self._proxies)

    def suspended_until(self, proxy_id: str) -> int:
        """Return when a suspension ends by itself, 0 where there is none."""
        return self._suspended.of(proxy_id)

    def begin(self, proxy: LeasableProxy) -> None:
        """Doubt a proxy that was not; the room for it must be there."""
        proxy.doubted = True
        self._proxies[proxy.id] = proxy
        self._budget.used += lease_budget.DOUBT_BYTES

    def suspend(self, proxy: LeasableProxy, until: int) -> None:
        """Do not hand a proxy in doubt out until then."""
        proxy.suspended = True
        self._suspended.set(proxy.id, until)

    def end(self, proxy: LeasableProxy) -> None:
        """Trust a proxy again, doubted or not."""
        if self._proxies.pop(proxy.id, None) is None:
            return
        proxy.doubted = proxy.suspended = False
        self._suspended.discard(proxy.id)
        self._budget.used -= lease_budget.DOUBT_BYTES

    def pop_lifted(self, now: int) -> Iterator[LeasableProxy]:
        """Lift and yield the suspensions that are over."""
        for proxy_id in self._suspended.pop_due(now):
            proxy = self._proxies[proxy_id]
            proxy.suspended = False
            yield proxy
