"""Short ways to fill a lease table."""

from typing import Any

from model.lease_answers import Answer, Granted, NoMatch
from model.lease_keys import request_hash, session_hash
from model.lease_operations import (
    Acquire,
    Gone,
    Look,
    Order,
    Primed,
    Probe,
    Probes,
    ProxyView,
    Release,
    Renew,
    Report,
    Transition,
)
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
        """The counts of a refusal, without the time."""
        answer = self.acquire(lease_id, target, MINUTE, **selector)
        assert isinstance(answer, NoMatch), answer
        return answer._replace(earliest_millis=0)

    def earliest(self, target: str = "", **selector: str) -> int:
        """When a refused acquire may come again, in milliseconds from now; 0 for never."""
        answer = self.acquire("refused", target, MINUTE, **selector)
        assert isinstance(answer, NoMatch), answer
        return answer.earliest_millis and answer.earliest_millis - self.table.now

    def keyed(self, lease_id: str, target: str = "", ttl: int = MINUTE) -> Answer:
        body = request_hash(target, ttl)
        return self.table.apply(Acquire(lease_id, {}, target, ttl, COOLDOWN, body))

    def in_session(
        self, lease_id: str, session: str, target: str = "", *, strict: bool = False, ttl: int = MINUTE, **selector: str
    ) -> Answer:
        name = session_hash(session)
        return self.table.apply(Acquire(lease_id, selector, target, ttl, COOLDOWN, "", name, strict))

    def renew(self, lease_id: str, ttl: int = MINUTE) -> Answer:
        return self.table.apply(Renew(lease_id, ttl))

    def look(self, lease_id: str) -> Answer:
        return self.table.apply(Look(lease_id))

    def probed(self, proxy_id: str, hold: int = 0, uid: str = "") -> Answer:
        return self.table.apply(Probes([Probe(proxy_id, uid or f"uid-{proxy_id}", hold)]))

    def release(self, lease_id: str) -> Answer:
        return self.table.apply(Release(lease_id))

    def report(self, lease_id: str, result: str = "banned", target: str = "") -> Answer:
        return self.table.apply(Report(lease_id, result, target, COOLDOWN))

    def active(self, proxy_id: str, now: int | None = None) -> int:
        views = self.table.views(self.table.now if now is None else now)
        return next(active for proxy, active in views if proxy.id == proxy_id)
