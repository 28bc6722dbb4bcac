"""Short ways to fill a lease table."""

from typing import Any

from model.lease_answers import Answer, Granted, NoMatch
from model.lease_operations import Acquire, Gone, Order, Primed, ProxyView, Release, Report, Transition
from model.leases import LeaseTable

START = 1_790_000_000_000
MINUTE = 60_000
COOLDOWN = 15 * MINUTE


def view(**changes: Any) -> ProxyView:
    facts: dict[str, Any] = {
        "ip": "10.0.0.1",
        "port": 3128,
        "attributes": {},
        "phase": "Ready",
        "healthy": True,
        "latency_millis": 10,
        "max_leases": 5,
        "leasable": True,
        "instance": "one",
    }
    return ProxyView(**{**facts, **changes})


class Leasing:
    """A table with a clock."""

    def __init__(self, *, primed: bool = True, limit: int | None = None) -> None:
        self.table = LeaseTable() if limit is None else LeaseTable(limit)
        self.table.advance(START)
        self._counter = 0
        if primed:
            self.table.apply(Primed())

    def pass_time(self, millis: int) -> None:
        self.table.advance(self.table.now + millis)

    def next_order(self) -> Order:
        self._counter += 1
        return START, self._counter

    def tell(self, proxy_id: str, uid: str = "", order: Order | None = None, **changes: Any) -> Answer:
        change = Transition(proxy_id, uid or f"uid-{proxy_id}", order or self.next_order(), view(**changes))
        return self.table.apply(change)

    def gone(self, proxy_id: str, uid: str = "", order: Order | None = None) -> Answer:
        return self.table.apply(Gone(proxy_id, uid or f"uid-{proxy_id}", order or self.next_order()))

    def acquire(self, lease_id: str, target: str = "", ttl: int = MINUTE, **selector: str) -> Answer:
        return self.table.apply(Acquire(lease_id, selector, target, ttl, COOLDOWN))

    def grant(self, lease_id: str, target: str = "", ttl: int = MINUTE, **selector: str) -> Granted:
        answer = self.acquire(lease_id, target, ttl, **selector)
        assert isinstance(answer, Granted), answer
        return answer

    def refuse(self, lease_id: str, target: str = "", **selector: str) -> NoMatch:
        answer = self.acquire(lease_id, target, MINUTE, **selector)
        assert isinstance(answer, NoMatch), answer
        return answer

    def release(self, lease_id: str) -> Answer:
        return self.table.apply(Release(lease_id))

    def report(self, lease_id: str, result: str = "banned", target: str = "") -> Answer:
        return self.table.apply(Report(lease_id, result, target, COOLDOWN))

    def active(self, proxy_id: str, now: int | None = None) -> int:
        views = self.table.views(self.table.now if now is None else now)
        return next(active for proxy, active in views if proxy.id == proxy_id)
