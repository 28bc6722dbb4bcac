"""The proxies of the lease table: which message about one counts, and what it changes."""

import functools
import json
from collections.abc import Callable

from model import lease_budget
from model.lease_answers import Answer, Stale, Word
from model.lease_budget import Budget, SharedProxyIds, SharedTexts
from model.lease_doubts import Doubts
from model.lease_index import LeasableProxy, Rank, SelectorIndex
from model.lease_operations import Gone, Latencies, Latency, Order, ProxyView, Transition

GONE_LIMIT = 4096
"""Uids known to be gone; the oldest are forgotten first."""


class LeaseProxies:
    """Proxies by id.

    Attributes:
        gone: Order of the last message about each uid that is no more.
    """

    def __init__(
        self,
        index: SelectorIndex,
        budget: Budget,
        texts: SharedTexts,
        ids: SharedProxyIds,
        doubts: Doubts,
        revoke: Callable[[str], None],
        rank: Callable[[LeasableProxy], Rank | None],
    ) -> None:
        self.by_id: dict[str, LeasableProxy] = {}
        self.gone: dict[str, Order] = {}
        self._index = index
        self._budget = budget
        self._texts = texts
        self._ids = ids
        self._doubts = doubts
        self._revoke = revoke
        self._rank = rank

    def apply(self, operation: Transition | Gone | Latencies) -> Answer:
        """Apply what a proxy's workflow says, unless something newer is known."""
        if isinstance(operation, Transition):
            return self._change(operation)
        if isinstance(operation, Gone):
            return self._remove(operation)
        for row in operation.rows:
            self._set_latency(row)
        return Word.DONE

    def _change(self, change: Transition) -> Answer:
        proxy = self.by_id.get(change.proxy_id)
        if self.gone.get(change.uid, change.order) > change.order:
            return Stale(self.gone[change.uid])
        if proxy is not None and proxy.order > change.order:
            return Stale(proxy.order)
        if proxy is not None and (proxy.uid, proxy.order) == (change.uid, change.order):
            return Word.DONE
        self._forget_gone(change.uid)
        if not self._budget.has_room(self._cost(change) - (self._cost_of(proxy) if proxy else 0)):
            return self._refuse(proxy, change)
        if proxy is not None:
            self._replace(proxy, change)
        else:
            self.add(change)
        return Word.DONE

    def _refuse(self, proxy: LeasableProxy | None, change: Transition) -> Answer:
        # A known proxy that has outgrown the budget keeps its old, shorter view, and is not handed out on it.
        if proxy is not None and proxy.uid == change.uid:
            former = proxy.view._replace(leasable=False, drain_ends_at=change.view.drain_ends_at)
            self._replace(proxy, change._replace(view=former))
        return Word.FULL

    def add(self, change: Transition) -> None:
        """Take a new proxy on; the room for it must be there."""
        proxy = LeasableProxy(change.proxy_id, change.uid, change.order, change.view)
        self._charge(proxy)
        self.by_id[proxy.id] = proxy
        proxy.rank = self._rank(proxy)
        self._index.place(proxy)

    def _replace(self, proxy: LeasableProxy, change: Transition) -> None:
        if change.uid != proxy.uid or change.view.instance != proxy.view.instance:
            self._revoke_leases(proxy)
            self._doubts.end(proxy)
        elif change.view.healthy and not proxy.view.healthy:
            # It turns healthy by a probe that passed.
            self._doubts.end(proxy)
        self._refund(proxy)
        former = proxy.view
        proxy.uid, proxy.order, proxy.view = change.uid, change.order, change.view
        proxy.leases_changed()
        self._charge(proxy)
        if _selectable(former) != _selectable(change.view):
            self._index.remove(proxy)
            proxy.rank = self._rank(proxy)
            self._index.place(proxy)
        else:
            self._index.rerank(proxy, self._rank(proxy))

    def _remove(self, message: Gone) -> Answer:
        proxy = self.by_id.get(message.proxy_id)
        if proxy is not None and proxy.uid == message.uid:
            if proxy.order > message.order:
                return Stale(proxy.order)
            self._revoke_leases(proxy)
            self._doubts.end(proxy)
            self._index.remove(proxy)
            self._refund(proxy)
            del self.by_id[proxy.id]
        self.remember_gone(message.uid, message.order)
        return Word.DONE

    def remember_gone(self, uid: str, order: Order) -> None:
        """Refuse a late message about this uid, for as long as there is room to remember it."""
        order = max(order, self.gone.get(uid, order))
        self._forget_gone(uid)
        self.gone[uid] = order
        self._budget.used += lease_budget.GONE_BYTES
        if len(self.gone) > GONE_LIMIT:
            self._forget_gone(next(iter(self.gone)))

    def _forget_gone(self, uid: str) -> None:
        if self.gone.pop(uid, None) is not None:
            self._budget.used -= lease_budget.GONE_BYTES

    def _revoke_leases(self, proxy: LeasableProxy) -> None:
        for lease_id in proxy.lease_ids:
            self._revoke(lease_id)
        proxy.lease_ids.clear()
        proxy.leases_changed()

    def _set_latency(self, row: Latency) -> None:
        proxy = self.by_id.get(row.proxy_id)
        if proxy is not None and proxy.uid == row.uid and proxy.view.latency_millis != row.latency_millis:
            proxy.view = proxy.view._replace(latency_millis=row.latency_millis)
            self._index.rerank(proxy, self._rank(proxy))

    def _cost(self, change: Transition) -> int:
        attributes = self._texts.cost(_attributes_text(change.view))
        return _own_bytes(change.uid, change.view) + attributes + self._ids.cost(change.proxy_id)

    def _cost_of(self, proxy: LeasableProxy) -> int:
        return _own_bytes(proxy.uid, proxy.view)

    def _charge(self, proxy: LeasableProxy) -> None:
        self._budget.used += _own_bytes(proxy.uid, proxy.view) + _drain_bytes(proxy.view)
        self._ids.take(proxy.id)
        self._texts.take(_attributes_text(proxy.view))

    def _refund(self, proxy: LeasableProxy) -> None:
        self._budget.used -= _own_bytes(proxy.uid, proxy.view) + _drain_bytes(proxy.view)
        self._ids.drop(proxy.id)
        self._texts.drop(_attributes_text(proxy.view))


def _selectable(view: ProxyView) -> tuple[str, dict[str, str]]:
    return view.phase, view.attributes


def _attributes_text(view: ProxyView) -> str:
    return _text_of(tuple(sorted(view.attributes.items())))


@functools.lru_cache(maxsize=1024)
def _text_of(attributes: tuple[tuple[str, str], ...]) -> str:
    return json.dumps(dict(attributes))


def _own_bytes(uid: str, view: ProxyView) -> int:
    return lease_budget.PROXY_BYTES + sum(map(lease_budget.identifier_bytes, (uid, view.ip, view.instance)))


def _drain_bytes(view: ProxyView) -> int:
    return lease_budget.DRAIN_BYTES if view.drain_ends_at else 0
