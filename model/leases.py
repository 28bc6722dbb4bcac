"""The rules of leasing: who gets which proxy, until when, and what a report does.

The table knows no clock: ``advance`` tells it the time, in Unix milliseconds, before operations are applied. Whatever
has ended by then is over, with no event needed. Rules may change only between runs of the broker's workflow: a replay
under other rules raises nothing and silently rewrites the table.
"""

from collections.abc import Iterator

from model import lease_budget
from model.lease_answers import Answer, Granted, Word
from model.lease_book import Lease, LeaseBook
from model.lease_budget import Budget, SharedProxyIds, SharedTexts
from model.lease_choice import LeaseChoice
from model.lease_cooldowns import EVERY_TARGET, Cooldowns
from model.lease_doubts import SUSPENSION_MILLIS, Doubts
from model.lease_index import LeasableProxy, SelectorIndex
from model.lease_operations import (
    RESTING_RESULTS,
    RESULT_TRANSPORT_ERROR,
    Acquire,
    GiveBack,
    Look,
    Operation,
    Primed,
    Probes,
    Release,
    Renew,
    Report,
)
from model.lease_proxies import LeaseProxies
from model.lease_sessions import Sessions


class LeaseTable:
    """Proxies, leases, sessions, cooldowns and doubts.

    Attributes:
        primed: Whether every Proxy there is has been told; nothing is granted before.
        now: Unix milliseconds; never goes back.
    """

    def __init__(self, limit: int = lease_budget.SNAPSHOT_BYTES_LIMIT) -> None:
        self.primed = False
        self.now = 0
        self.budget = Budget(limit)
        self.texts = SharedTexts(self.budget)
        self.ids = SharedProxyIds(self.budget)
        self.index = SelectorIndex()
        self.cooldowns = Cooldowns(self.budget, self.texts, self.ids)
        self.doubts = Doubts(self.budget)
        self.sessions = Sessions(self.budget, self.ids)
        self.leases = LeaseBook(self.budget, self.texts, self.ids, self.sessions)
        self.proxies = LeaseProxies(
            self.index, self.budget, self.texts, self.ids, self.doubts, revoke=self._revoke, rank=self._rank
        )
        self._choice = LeaseChoice(self.index, self.cooldowns, self.sessions, self.proxies.by_id)

    def advance(self, now: int) -> None:
        """Move the clock; leases, sessions, cooldowns, suspensions and retention that are over end."""
        self.now = max(self.now, now)
        for lease_id in self.leases.running.pop_due(self.now):
            self._end(lease_id, self.leases.by_id[lease_id].expires)
        for lease_id in self.leases.ended.pop_due(self.now):
            self.leases.forget(lease_id, self.now)
        self.sessions.forget_idle(self.now)
        for target, proxy_id in self.cooldowns.pop_ended(self.now):
            self._cooldown_changed(target, proxy_id)
        for proxy in self.doubts.pop_lifted(self.now):
            self._rerank(proxy)
        self._choice.refusals.clear()

    def apply(self, operation: Operation) -> Answer:
        """Apply one operation and answer it."""
        if isinstance(operation, Acquire):
            return self._acquire(operation)
        if isinstance(operation, Release):
            return self._release(operation)
        if isinstance(operation, Report):
            return self._report(operation)
        if isinstance(operation, Renew):
            return self._renew(operation)
        if isinstance(operation, Look):
            return self._look(operation)
        if isinstance(operation, GiveBack):
            return self._give_back(operation)
        self._choice.refusals.clear()
        if isinstance(operation, Primed):
            self.primed = True
            return Word.DONE
        if isinstance(operation, Probes):
            return self._probed(operation)
        return self.proxies.apply(operation)

    def _acquire(self, request: Acquire) -> Answer:
        lease = self.leases.by_id.get(request.lease_id)
        if lease is not None:
            return self._acquire_again(request, lease)
        if request.lease_id in self.leases.released:
            return Word.LEASE_ENDED
        if not self.primed:
            return Word.UNPRIMED
        proxy = self._choice.choose(request)
        if not isinstance(proxy, LeasableProxy):
            return proxy
        if not self.leases.make_room(self.leases.cost(request.target, request.body, request.session)):
            return Word.FULL
        expires = self.now + request.ttl_millis
        lease = Lease(
            proxy.id, request.target, expires, request.ttl_millis, request.retain_millis, request.body, request.session
        )
        self._add(request.lease_id, lease)
        return _granted(lease, proxy)

    def _acquire_again(self, request: Acquire, lease: Lease) -> Answer:
        if request.body != lease.body:
            return Word.KEY_REUSED
        proxy = self.proxies.by_id.get(lease.proxy_id)
        if proxy is None or lease.over or (lease.body and lease.expires <= self.now):
            return Word.LEASE_ENDED
        return _granted(lease, proxy)

    def _renew(self, request: Renew) -> Answer:
        lease = self.leases.by_id.get(request.lease_id)
        if lease is None or lease.released:
            return Word.UNKNOWN_LEASE
        proxy = self.proxies.by_id.get(lease.proxy_id)
        if lease.revoked or proxy is None or not proxy.considered:
            return Word.REVOKED
        if lease.expires <= self.now:
            return Word.LEASE_ENDED
        if 0 < proxy.view.drain_ends_at <= self.now:
            return Word.REVOKED
        expires = min(self.now + request.ttl_millis, proxy.longest_renewal(lease.expires))
        self.leases.renew(request.lease_id, expires, expires - self.now)
        proxy.lease_ids[request.lease_id] = expires
        proxy.leases_changed()
        return _granted(lease, proxy)

    def _look(self, request: Look) -> Answer:
        lease = self.leases.by_id.get(request.lease_id)
        if lease is None or lease.over or lease.expires <= self.now:
            return Word.UNKNOWN_LEASE
        return _granted(lease, self.proxies.by_id[lease.proxy_id])

    def _release(self, request: Release) -> Answer:
        lease = self.leases.by_id.get(request.lease_id)
        if lease is None or lease.released:
            return Word.DONE
        if not lease.body:
            self.leases.remember_released(request.lease_id)
            self._forget(request.lease_id)
            return Word.DONE
        # Its key must not be good for another lease.
        if request.lease_id in self.leases.running:
            self._end(request.lease_id, self.now)
        lease.released = True
        return Word.DONE

    def _give_back(self, request: GiveBack) -> Answer:
        self.leases.remember_released(request.lease_id)
        if request.lease_id in self.leases.by_id:
            self._forget(request.lease_id)
        return Word.DONE

    def _report(self, report: Report) -> Answer:
        lease = self.leases.by_id.get(report.lease_id)
        if lease is None or lease.released:
            return Word.UNKNOWN_LEASE
        if report.result in RESTING_RESULTS:
            return self._rest_after(report, lease)
        if report.result == RESULT_TRANSPORT_ERROR:
            return self._doubt(report.lease_id, lease)
        return Word.DONE

    def _rest_after(self, report: Report, lease: Lease) -> Answer:
        target = report.target or lease.target
        if not self.leases.make_room(self.cooldowns.cost(target, lease.proxy_id), sparing=report.lease_id):
            return Word.FULL
        self.rest(target, lease.proxy_id, self.now + report.cooldown_millis)
        self._choice.refusals.clear()
        return Word.DONE

    def _doubt(self, lease_id: str, lease: Lease) -> Answer:
        proxy = self.proxies.by_id.get(lease.proxy_id)
        # A lease that has ended may have been on an instance that is no more.
        if proxy is None or proxy.doubted or lease_id not in proxy.lease_ids:
            return Word.DONE
        if not self.leases.make_room(lease_budget.DOUBT_BYTES, sparing=lease_id):
            return Word.FULL
        self.doubts.begin(proxy)
        self.doubts.suspend(proxy, self.now + SUSPENSION_MILLIS)
        self._rerank(proxy)
        self._choice.refusals.clear()
        return Word.DONE

    def _probed(self, probes: Probes) -> Answer:
        for row in probes.rows:
            proxy = self.proxies.by_id.get(row.proxy_id)
            if proxy is None or proxy.uid != row.uid or not proxy.doubted:
                continue
            if row.hold_millis:
                self.doubts.suspend(proxy, self.now + row.hold_millis)
            else:
                self.doubts.end(proxy)
            self._rerank(proxy)
        return Word.DONE

    def restore_doubt(self, proxy_id: str, suspended_millis: int) -> None:
        """Take over a doubt of an earlier table, suspended for so long from now on; 0: not suspended."""
        proxy = self.proxies.by_id[proxy_id]
        self.doubts.begin(proxy)
        if suspended_millis:
            self.doubts.suspend(proxy, self.now + suspended_millis)
        self._rerank(proxy)

    def rest(self, target: str, proxy_id: str, until: int) -> None:
        """Let a proxy rest from a target until then; the room for it must be there."""
        self.cooldowns.extend(target, proxy_id, until)
        self._cooldown_changed(target, proxy_id)

    def _cooldown_changed(self, target: str, proxy_id: str) -> None:
        proxy = self.proxies.by_id.get(proxy_id)
        if target == EVERY_TARGET and proxy is not None:
            self._rerank(proxy)

    def _add(self, lease_id: str, lease: Lease) -> None:
        proxy = self.proxies.by_id.get(lease.proxy_id)
        running = proxy is not None and not lease.over and lease.expires > self.now
        self.leases.add(lease_id, lease, running=running)
        if proxy is not None and running:
            proxy.lease_ids[lease_id] = lease.expires
            self._rerank(proxy)

    def restore_leases(self, leases: dict[str, Lease]) -> None:
        """Take over the leases of an earlier table; the proxies and the time must be known already."""
        running, ended = {}, {}
        for lease_id, lease in leases.items():
            proxy = self.proxies.by_id.get(lease.proxy_id)
            if proxy is None or lease.over or lease.expires <= self.now:
                ended[lease_id] = lease
            else:
                running[lease_id] = lease
                proxy.lease_ids[lease_id] = lease.expires
        self.leases.restore(running, ended)
        for proxy in self.proxies.by_id.values():
            self._rerank(proxy)

    def _end(self, lease_id: str, when: int) -> None:
        self._leave_proxy(lease_id)
        self.leases.end(lease_id, when)

    def _revoke(self, lease_id: str) -> None:
        self.leases.by_id[lease_id].revoked = True
        self.leases.end(lease_id, self.now)

    def _forget(self, lease_id: str) -> None:
        self._leave_proxy(lease_id)
        self.leases.forget(lease_id, self.now)

    def _leave_proxy(self, lease_id: str) -> None:
        proxy = self.proxies.by_id.get(self.leases.by_id[lease_id].proxy_id)
        if proxy is not None and proxy.lease_ids.pop(lease_id, None) is not None:
            self._rerank(proxy)

    def _rank(self, proxy: LeasableProxy) -> tuple[int, int, str] | None:
        active = len(proxy.lease_ids)
        if not proxy.usable or active >= proxy.view.max_leases or proxy.id in self.cooldowns.of(EVERY_TARGET):
            return None
        return active, proxy.view.latency_millis, proxy.id

    def _rerank(self, proxy: LeasableProxy) -> None:
        proxy.leases_changed()
        self.index.rerank(proxy, self._rank(proxy))

    def views(self, now: int) -> Iterator[tuple[LeasableProxy, int]]:
        """Yield the proxies in order of id, with their active leases at ``now``; changes nothing."""
        over: dict[str, int] = {}
        for lease_id in self.leases.running.due(now):
            proxy_id = self.leases.by_id[lease_id].proxy_id
            over[proxy_id] = over.get(proxy_id, 0) + 1
        for proxy_id in sorted(self.proxies.by_id):
            proxy = self.proxies.by_id[proxy_id]
            if proxy.considered:
                yield proxy, len(proxy.lease_ids) - over.get(proxy_id, 0)

    def active_on(self, proxy_id: str, now: int) -> int:
        """Count the running leases on the present instance of a known proxy at ``now``; changes nothing."""
        return sum(expires > now for expires in self.proxies.by_id[proxy_id].lease_ids.values())

    def active_leases(self, now: int) -> int:
        """Count the running leases at ``now``; changes nothing."""
        return len(self.leases.running) - self.leases.running.count_due(now)


def _granted(lease: Lease, proxy: LeasableProxy) -> Granted:
    return Granted(proxy.id, proxy.view, len(proxy.lease_ids), lease.expires, lease.ttl)
