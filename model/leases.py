"""The rules of leasing: who gets which proxy, until when, and what a report does.

The table knows no clock: ``advance`` tells it the time, in Unix milliseconds, before operations are applied. Whatever
has ended by then is over, with no event needed. Rules may change only between runs of the broker's workflow: a replay
under other rules raises nothing and silently rewrites the table.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from model import lease_budget
from model.deadlines import Deadlines
from model.lease_answers import Answer, Granted, NoMatch, Word
from model.lease_budget import Budget, SharedTexts
from model.lease_cooldowns import EVERY_TARGET, Cooldowns
from model.lease_index import LeasableProxy, SelectorGroup, SelectorIndex
from model.lease_operations import (
    RESULT_OK,
    Acquire,
    GiveBack,
    Operation,
    Primed,
    Release,
    Report,
)
from model.lease_proxies import LeaseProxies

RELEASED_LIMIT = 4096
"""Ended leases whose late or repeated acquire is still refused; the oldest are forgotten first."""


@dataclass(slots=True)
class Lease:
    """A lease, running or kept for late reports.

    Attributes:
        expires: When it ends by itself.
        retained_until: Until when it can be reported on.
        revoked: Whether the instance it was made on is no more.
    """

    proxy_id: str
    target: str
    expires: int
    retained_until: int
    revoked: bool = False


class LeaseTable:
    """Proxies, leases and cooldowns.

    Attributes:
        primed: Whether every Proxy there is has been told; nothing is granted before.
        now: Unix milliseconds; never goes back.
    """

    def __init__(self, limit: int = lease_budget.SNAPSHOT_BYTES_LIMIT) -> None:
        self.primed = False
        self.now = 0
        self.budget = Budget(limit)
        self.texts = SharedTexts(self.budget)
        self.index = SelectorIndex()
        self.cooldowns = Cooldowns()
        self.proxies = LeaseProxies(self.index, self.budget, self.texts, revoke=self._revoke, rank=self._rank)
        self.leases: dict[str, Lease] = {}
        self.running: Deadlines[str] = Deadlines()
        self.ended: Deadlines[str] = Deadlines()
        self.released: dict[str, None] = {}
        self._refusals: dict[tuple[SelectorGroup, str], NoMatch] = {}

    def advance(self, now: int) -> None:
        """Move the clock; leases, cooldowns and retention that are over end."""
        self.now = max(self.now, now)
        for lease_id in self.running.pop_due(self.now):
            self._end(lease_id)
        for lease_id in self.ended.pop_due(self.now):
            self._forget(lease_id)
        for target, proxy_id in self.cooldowns.pop_ended(self.now):
            self._forget_cooldown(target, proxy_id)
        self._refusals.clear()

    def apply(self, operation: Operation) -> Answer:
        """Apply one operation and answer it."""
        if isinstance(operation, Acquire):
            return self._acquire(operation)
        if isinstance(operation, Release):
            return self._release(operation)
        self._refusals.clear()
        if isinstance(operation, GiveBack):
            return self._give_back(operation)
        if isinstance(operation, Report):
            return self._report(operation)
        if isinstance(operation, Primed):
            self.primed = True
            return Word.DONE
        return self.proxies.apply(operation)

    def _acquire(self, request: Acquire) -> Answer:
        lease = self.leases.get(request.lease_id)
        if lease is not None:
            return self._grant_again(lease)
        if request.lease_id in self.released:
            return Word.LEASE_ENDED
        if not self.primed:
            return Word.UNPRIMED
        group = self.index.group(request.selector, self.proxies.by_id)
        proxy = self._pick(group, request.target)
        if proxy is None:
            return self._refuse(group, request.target)
        if not self._make_room(lease_budget.LEASE_BYTES + lease_budget.text_bytes(request.target)):
            return Word.FULL
        return self._grant(request, proxy)

    def _pick(self, group: SelectorGroup, target: str) -> LeasableProxy | None:
        # Proxies that rest from every target have no rank.
        resting = self.cooldowns.of(target) if target else {}
        for steps, (_, _, proxy_id) in enumerate(group.ranks):
            if proxy_id not in resting:
                self.index.work += steps
                return self.proxies.by_id[proxy_id]
        self.index.work += len(group.ranks)
        return None

    def _grant(self, request: Acquire, proxy: LeasableProxy) -> Granted:
        expires = self.now + request.ttl_millis
        self._add(request.lease_id, Lease(proxy.id, request.target, expires, expires + request.retain_millis))
        return Granted(proxy.id, proxy.view, len(proxy.lease_ids), expires)

    def _grant_again(self, lease: Lease) -> Answer:
        proxy = self.proxies.by_id.get(lease.proxy_id)
        if proxy is None or lease.revoked:
            return Word.LEASE_ENDED
        return Granted(proxy.id, proxy.view, len(proxy.lease_ids), lease.expires)

    def _refuse(self, group: SelectorGroup, target: str) -> NoMatch:
        # Granting and releasing changes nothing here: nothing is free, so what is neither unhealthy nor resting is at
        # capacity. Only what clears the cache can change these counts.
        key = (group, target)
        refusal = self._refusals.get(key)
        if refusal is None:
            refusal = self._refusals[key] = self._count(group, target)
        return refusal

    def _count(self, group: SelectorGroup, target: str) -> NoMatch:
        everywhere, here = self.cooldowns.of(EVERY_TARGET), self.cooldowns.of(target)
        unhealthy = in_cooldown = 0
        for proxy in group.members:
            if not proxy.usable:
                unhealthy += 1
            elif proxy.id in everywhere or proxy.id in here:
                in_cooldown += 1
        considered = len(group.members)
        self.index.work += 2 * considered
        return NoMatch(considered, considered - unhealthy - in_cooldown, in_cooldown, unhealthy)

    def _release(self, request: Release) -> Answer:
        if request.lease_id in self.leases:
            self.remember_released(request.lease_id)
            self._forget(request.lease_id)
        return Word.DONE

    def _give_back(self, request: GiveBack) -> Answer:
        self.remember_released(request.lease_id)
        if request.lease_id in self.leases:
            self._forget(request.lease_id)
        return Word.DONE

    def _report(self, report: Report) -> Answer:
        lease = self.leases.get(report.lease_id)
        if lease is None:
            return Word.UNKNOWN_LEASE
        if report.result == RESULT_OK:
            return Word.DONE
        target = report.target or lease.target
        if lease.proxy_id not in self.cooldowns.of(target):
            cost = lease_budget.COOLDOWN_BYTES + lease_budget.text_bytes(target)
            if not self._make_room(cost, sparing=report.lease_id):
                return Word.FULL
        self.rest(target, lease.proxy_id, self.now + report.cooldown_millis)
        return Word.DONE

    def rest(self, target: str, proxy_id: str, until: int) -> None:
        """Let a proxy rest from a target until then; the room for it must be there."""
        if proxy_id not in self.cooldowns.of(target):
            self.budget.used += lease_budget.COOLDOWN_BYTES
            self.texts.take(target)
            self.texts.take(proxy_id)
        self.cooldowns.extend(target, proxy_id, until)
        if target == EVERY_TARGET:
            self._rerank(proxy_id)

    def _forget_cooldown(self, target: str, proxy_id: str) -> None:
        self.budget.used -= lease_budget.COOLDOWN_BYTES
        self.texts.drop(target)
        self.texts.drop(proxy_id)
        if target == EVERY_TARGET:
            self._rerank(proxy_id)

    def _add(self, lease_id: str, lease: Lease) -> None:
        self.leases[lease_id] = lease
        self.budget.used += lease_budget.LEASE_BYTES
        self.texts.take(lease.target)
        self.texts.take(lease.proxy_id)
        proxy = self.proxies.by_id.get(lease.proxy_id)
        if proxy is not None and not lease.revoked and lease.expires > self.now:
            self.running.set(lease_id, lease.expires)
            proxy.lease_ids[lease_id] = None
            self.index.rerank(proxy, self._rank(proxy))
        else:
            self.ended.set(lease_id, lease.retained_until)

    def restore_lease(self, lease_id: str, lease: Lease) -> None:
        """Take over a lease of an earlier table; its proxy and the time must be known already."""
        self._add(lease_id, lease)

    def _end(self, lease_id: str) -> None:
        lease = self.leases[lease_id]
        self._leave_proxy(lease_id, lease)
        self.ended.set(lease_id, lease.retained_until)

    def _revoke(self, lease_id: str) -> None:
        lease = self.leases[lease_id]
        lease.revoked = True
        self.running.discard(lease_id)
        self.ended.set(lease_id, lease.retained_until)

    def _forget(self, lease_id: str) -> None:
        lease = self.leases.pop(lease_id)
        self.running.discard(lease_id)
        self.ended.discard(lease_id)
        self._leave_proxy(lease_id, lease)
        self.budget.used -= lease_budget.LEASE_BYTES
        self.texts.drop(lease.target)
        self.texts.drop(lease.proxy_id)

    def _leave_proxy(self, lease_id: str, lease: Lease) -> None:
        proxy = self.proxies.by_id.get(lease.proxy_id)
        if proxy is not None and lease_id in proxy.lease_ids:
            del proxy.lease_ids[lease_id]
            self.index.rerank(proxy, self._rank(proxy))

    def remember_released(self, lease_id: str) -> None:
        """Refuse a late acquire of this lease id, for as long as there is room to remember it."""
        if lease_id in self.released:
            return
        self.released[lease_id] = None
        self.budget.used += lease_budget.RELEASED_BYTES
        if len(self.released) > RELEASED_LIMIT:
            self._forget_oldest_released()

    def _forget_oldest_released(self) -> None:
        del self.released[next(iter(self.released))]
        self.budget.used -= lease_budget.RELEASED_BYTES

    def _make_room(self, size: int, sparing: str = "") -> bool:
        while not self.budget.has_room(size):
            if self.released:
                self._forget_oldest_released()
                continue
            oldest = self.ended.earliest()
            if oldest is None or oldest == sparing:
                return False
            self._forget(oldest)
        return True

    def _rank(self, proxy: LeasableProxy) -> tuple[int, int, str] | None:
        active = len(proxy.lease_ids)
        if not proxy.usable or active >= proxy.view.max_leases or proxy.id in self.cooldowns.of(EVERY_TARGET):
            return None
        return active, proxy.view.latency_millis, proxy.id

    def _rerank(self, proxy_id: str) -> None:
        proxy = self.proxies.by_id.get(proxy_id)
        if proxy is not None:
            self.index.rerank(proxy, self._rank(proxy))

    def views(self, now: int) -> Iterator[tuple[LeasableProxy, int]]:
        """Yield the proxies in order of id, with their active leases at ``now``; changes nothing."""
        over: dict[str, int] = {}
        for lease_id in self.running.due(now):
            proxy_id = self.leases[lease_id].proxy_id
            over[proxy_id] = over.get(proxy_id, 0) + 1
        for proxy_id in sorted(self.proxies.by_id):
            proxy = self.proxies.by_id[proxy_id]
            if proxy.considered:
                yield proxy, len(proxy.lease_ids) - over.get(proxy_id, 0)

    def active_leases(self, now: int) -> int:
        """Count the running leases at ``now``; changes nothing."""
        return len(self.running) - self.running.count_due(now)
