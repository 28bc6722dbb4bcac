"""The leases of the table: running, kept after their end for late reports and repeats, and remembered as released."""

from dataclasses import dataclass

from model import lease_budget
from model.deadlines import Deadlines
from model.lease_budget import Budget, SharedProxyIds, SharedTexts
from model.lease_sessions import Sessions

RELEASED_LIMIT = 4096
"""Ended leases whose late or repeated acquire is still refused; the oldest are forgotten first."""


@dataclass(slots=True)
class Lease:
    """A lease, running or kept after its end.

    Attributes:
        expires: When it ends by itself, in Unix milliseconds.
        ttl: What it was last granted for, in milliseconds.
        retain: How long past ``expires`` it is kept, in milliseconds.
        body: Hash of what was asked for under an idempotency key, "" without a key.
        session: Hash of the session it belongs to, "" without one or after its end.
        revoked: Whether the instance it was made on is no more.
        released: Whether its holder ended it; only one with a key is kept then.
    """

    proxy_id: str
    target: str
    expires: int
    ttl: int
    retain: int
    body: str = ""
    session: str = ""
    revoked: bool = False
    released: bool = False

    @property
    def retained_until(self) -> int:
        """Until when it is kept, in Unix milliseconds."""
        return self.expires + self.retain

    @property
    def over(self) -> bool:
        """Whether it ended before its time."""
        return self.revoked or self.released


class LeaseBook:
    """Leases by id, counted in the budget and in their sessions."""

    def __init__(self, budget: Budget, targets: SharedTexts, ids: SharedProxyIds, sessions: Sessions) -> None:
        self._budget = budget
        self._targets = targets
        self._ids = ids
        self._sessions = sessions
        self.by_id: dict[str, Lease] = {}
        self.running: Deadlines[str] = Deadlines()
        self.ended: Deadlines[str] = Deadlines()
        self.released: dict[str, None] = {}

    def cost(self, target: str, body: str, session: str) -> int:
        """Return what a new lease takes at most, besides its proxy's id."""
        return _own_bytes(body) + lease_budget.text_bytes(target) + self._sessions.cost(session)

    def add(self, lease_id: str, lease: Lease, *, running: bool) -> None:
        """Take a lease on; the room for it must be there."""
        self.by_id[lease_id] = lease
        self._budget.used += _own_bytes(lease.body)
        self._targets.take(lease.target)
        self._ids.take(lease.proxy_id)
        if not running:
            self.ended.set(lease_id, lease.retained_until)
            return
        self.running.set(lease_id, lease.expires)
        if lease.session:
            self._sessions.join(lease.session, lease.proxy_id)

    def restore(self, running: dict[str, Lease], ended: dict[str, Lease]) -> None:
        """Take over the leases of an earlier table; none may be there yet."""
        self.by_id = {**ended, **running}
        leases = self.by_id.values()
        self._budget.used += sum(_own_bytes(lease.body) for lease in leases)
        self._targets.take_all(lease.target for lease in leases)
        self._ids.take_all(lease.proxy_id for lease in leases)
        self.running.restore({lease_id: lease.expires for lease_id, lease in running.items()})
        self.ended.restore({lease_id: lease.retained_until for lease_id, lease in ended.items()})
        self._sessions.restore([(lease.session, lease.proxy_id) for lease in running.values() if lease.session])

    def renew(self, lease_id: str, expires: int, ttl: int) -> None:
        """Move the end of a running lease."""
        lease = self.by_id[lease_id]
        lease.expires, lease.ttl = expires, ttl
        self.running.set(lease_id, expires)

    def end(self, lease_id: str, when: int) -> None:
        """Let a running lease have ended at ``when``, and keep it."""
        lease = self.by_id[lease_id]
        self._stop(lease_id, lease, when)
        self.ended.set(lease_id, lease.retained_until)

    def forget(self, lease_id: str, when: int) -> None:
        """Drop a lease, which ends at ``when`` if it was running."""
        lease = self.by_id.pop(lease_id)
        self._stop(lease_id, lease, when)
        self.ended.discard(lease_id)
        self._budget.used -= _own_bytes(lease.body)
        self._targets.drop(lease.target)
        self._ids.drop(lease.proxy_id)

    def remember_released(self, lease_id: str) -> None:
        """Refuse a late acquire of this lease id, for as long as there is room to remember it."""
        if lease_id in self.released:
            return
        self.released[lease_id] = None
        self._budget.used += lease_budget.RELEASED_BYTES
        if len(self.released) > RELEASED_LIMIT:
            self._forget_oldest_released()

    def make_room(self, size: int, sparing: str = "") -> bool:
        """Drop what is over, oldest first, until so much fits; False when it never does.

        Args:
            size: Bytes.
            sparing: A lease that must stay.
        """
        while not self._budget.has_room(size):
            if self.released:
                self._forget_oldest_released()
            elif not self._forget_oldest(sparing):
                return False
        return True

    def _stop(self, lease_id: str, lease: Lease, when: int) -> None:
        self.running.discard(lease_id)
        if lease.session:
            self._sessions.leave(lease.session, when)
            lease.session = ""

    def _forget_oldest_released(self) -> None:
        del self.released[next(iter(self.released))]
        self._budget.used -= lease_budget.RELEASED_BYTES

    def _forget_oldest(self, sparing: str) -> bool:
        lease, session = self.ended.earliest(), self._sessions.idle.earliest()
        if lease is not None and lease[1] == sparing:
            lease = None
        if session is not None and (lease is None or session[0] < lease[0]):
            self._sessions.forget(session[1])
        elif lease is not None:
            self.forget(lease[1], lease[0])
        else:
            return False
        return True


def _own_bytes(body: str) -> int:
    return lease_budget.LEASE_BYTES + (lease_budget.KEY_BYTES if body else 0)
