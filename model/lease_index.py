"""Which proxies a selector may get, best first."""

import bisect
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from model.lease_operations import Order, ProxyView

Rank = tuple[int, int, str]
"""Active leases, latency in milliseconds, id: the lowest is handed out first."""

SELECTORS_LIMIT = 64
"""Selectors whose order is kept; the one unused longest is dropped and built again when it comes back."""

DELETING = "Deleting"

NEVER = 2**63
"""Later than any time."""


def matches(selector: Mapping[str, str], attributes: Mapping[str, str]) -> bool:
    """Whether every pair of the selector is in the attributes; a missing key has the value ""."""
    return all(attributes.get(key, "") == value for key, value in selector.items())


@dataclass(slots=True, eq=False)
class LeasableProxy:
    """One proxy of the table.

    Attributes:
        lease_ids: Its running leases, in the order of their grants, with their ends in Unix milliseconds.
        doubted: Whether somebody reported a transport error since it was last known to work.
        suspended: Whether it is not handed out for that reason.
        rank: Its place among those that may be handed out, or None while it may not.
        groups: The selectors it is indexed under.
    """

    id: str
    uid: str
    order: Order
    view: ProxyView
    lease_ids: dict[str, int] = field(default_factory=dict)
    doubted: bool = False
    suspended: bool = False
    rank: Rank | None = None
    groups: list["SelectorGroup"] = field(default_factory=list)
    _slot_free_at: int | None = None

    @property
    def considered(self) -> bool:
        """Whether acquires and lists see it at all."""
        return self.view.phase != DELETING

    @property
    def usable(self) -> bool:
        """Whether it is in a state to be handed out, capacity and cooldowns aside."""
        view = self.view
        handed_out = view.healthy and view.leasable and not view.drain_ends_at
        return handed_out and not self.suspended and view.phase != DELETING

    def longest_renewal(self, expires: int) -> int:
        """Return the latest end, in Unix milliseconds, that a lease which ends at ``expires`` may be renewed to.

        A drain lets nobody stay longer, and takes nothing away that was granted.
        """
        return max(self.view.drain_ends_at, expires) if self.view.drain_ends_at else NEVER

    def slot_free_at(self) -> int:
        """Return when time alone leaves a slot free, in Unix milliseconds: 0 is now, ``NEVER`` is not at all."""
        if self._slot_free_at is None:
            self._slot_free_at = self._next_free_slot()
        return self._slot_free_at

    def leases_changed(self) -> None:
        """Forget what was computed from the leases and the capacity."""
        self._slot_free_at = None

    def _next_free_slot(self) -> int:
        if self.view.max_leases == 0:
            return NEVER
        surplus = len(self.lease_ids) - self.view.max_leases + 1
        if surplus <= 0:
            return 0
        if surplus == 1:
            return min(self.lease_ids.values())
        return sorted(self.lease_ids.values())[surplus - 1]


class SelectorGroup:
    """The proxies that match one selector.

    Attributes:
        members: All that are considered, as an ordered set.
        ranks: Those that may be handed out, best first.
    """

    __slots__ = ("members", "ranks", "selector")

    def __init__(self, selector: Mapping[str, str], proxies: Iterable[LeasableProxy]) -> None:
        self.selector = selector
        self.members: dict[LeasableProxy, None] = {}
        for proxy in proxies:
            if self.accepts(proxy):
                self.members[proxy] = None
                proxy.groups.append(self)
        self.ranks: list[Rank] = sorted(proxy.rank for proxy in self.members if proxy.rank)

    def accepts(self, proxy: LeasableProxy) -> bool:
        """Whether the proxy belongs here."""
        return proxy.considered and matches(self.selector, proxy.view.attributes)


class SelectorIndex:
    """The groups of the selectors in use. It is a cache: what it answers never depends on what it holds.

    Attributes:
        work: Steps done since the caller last set it to 0, to bound what one batch may cost.
        offers: How often a proxy that could not be handed out became one that can.
    """

    def __init__(self) -> None:
        self._groups: OrderedDict[tuple[tuple[str, str], ...], SelectorGroup] = OrderedDict()
        self.work = 0
        self.offers = 0

    def group(self, selector: Mapping[str, str], proxies: Mapping[str, LeasableProxy]) -> SelectorGroup:
        """Return the group of a selector over all ``proxies``."""
        key = tuple(sorted(selector.items()))
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = SelectorGroup(dict(selector), proxies.values())
            self.work += len(proxies)
            if len(self._groups) > SELECTORS_LIMIT:
                self._forget(self._groups.popitem(last=False)[1])
        else:
            self._groups.move_to_end(key)
        return group

    def place(self, proxy: LeasableProxy) -> None:
        """Put a new proxy, or one with other attributes, into the groups it belongs to."""
        self.remove(proxy)
        for group in self._groups.values():
            if group.accepts(proxy):
                group.members[proxy] = None
                proxy.groups.append(group)
                if proxy.rank:
                    bisect.insort(group.ranks, proxy.rank)
        self.work += len(self._groups)

    def remove(self, proxy: LeasableProxy) -> None:
        """Take a proxy out of every group."""
        self._take_out(proxy)
        for group in proxy.groups:
            group.members.pop(proxy, None)
        proxy.groups = []

    def rerank(self, proxy: LeasableProxy, rank: Rank | None) -> None:
        """Give a proxy another rank, or None when it may not be handed out."""
        if rank == proxy.rank:
            return
        self._take_out(proxy)
        if proxy.rank is None:
            self.offers += 1
        proxy.rank = rank
        if rank:
            for group in proxy.groups:
                bisect.insort(group.ranks, rank)
        self.work += len(proxy.groups)

    def _take_out(self, proxy: LeasableProxy) -> None:
        if proxy.rank:
            for group in proxy.groups:
                del group.ranks[bisect.bisect_left(group.ranks, proxy.rank)]

    def _forget(self, group: SelectorGroup) -> None:
        for proxy in group.members:
            proxy.groups.remove(group)
        self.work += len(group.members)
