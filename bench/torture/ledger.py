"""What the clients know they hold: the other side's table, kept without the broker's help.

A lease counts from its answer until its release is about to be sent or its ``expiresAt`` has come. Server and clients
share one machine's clock, so a lease that the broker has ended never counts here any more.
"""

import itertools
from dataclasses import dataclass, field


@dataclass(eq=False, slots=True)
class HeldLease:
    """A lease whose grant was answered.

    Attributes:
        expires: Unix seconds.
        limit: ``maxLeases`` of its proxy, as the answer said.
        steady: Whether its proxy is never replaced in the run; leases on others may have been revoked.
    """

    lease_id: str
    proxy_id: str
    expires: float
    limit: int
    steady: bool


@dataclass
class Ledger:
    """The leases that are held.

    Attributes:
        most: The most leases held at once, by proxy.
        doubled: Lease ids that were granted a second time while they were held.
    """

    most: dict[str, int] = field(default_factory=dict)
    doubled: list[str] = field(default_factory=list)
    _leases: dict[str, HeldLease] = field(default_factory=dict)
    _by_proxy: dict[str, dict[str, HeldLease]] = field(default_factory=dict)

    def acknowledge(self, lease: HeldLease, now: float) -> list[HeldLease]:
        """Take in a grant; returns all leases of its proxy when they are more than it may have.

        Args:
            lease: What was granted.
            now: Unix seconds.
        """
        if lease.lease_id in self._leases:
            self.doubled.append(lease.lease_id)
        self._leases[lease.lease_id] = lease
        leases = self._by_proxy.setdefault(lease.proxy_id, {})
        leases[lease.lease_id] = lease
        for other in [other for other in leases.values() if other.expires <= now]:
            self.let_go(other.lease_id)
        self.most[lease.proxy_id] = max(len(leases), self.most.get(lease.proxy_id, 0))
        return list(leases.values()) if len(leases) > lease.limit else []

    def let_go(self, lease_id: str) -> None:
        """Stop counting a lease; one that is not counted any more is fine."""
        lease = self._leases.pop(lease_id, None)
        if lease is not None:
            self._by_proxy[lease.proxy_id].pop(lease_id, None)

    def holds(self, lease: HeldLease, now: float) -> bool:
        """Whether the lease still counts."""
        return lease.lease_id in self._leases and lease.expires > now

    def held(self, now: float, spare: float = 0.0) -> list[HeldLease]:
        """Return the leases that count, and go on counting for at least ``spare`` seconds unless they are let go."""
        return [lease for lease in self._leases.values() if lease.expires > now + spare]


def longest_gap(grants: list[float], since: float, now: float) -> float:
    """Return the longest time without a grant between two moments, in seconds; ``grants`` is in order of time."""
    times = [since, *(at for at in grants if since < at < now), now]
    return max(after - before for before, after in itertools.pairwise(times))
