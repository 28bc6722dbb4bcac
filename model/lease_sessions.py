"""Which proxy a session of a crawler sticks to."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from model import lease_budget
from model.deadlines import Deadlines
from model.lease_budget import Budget, SharedProxyIds

SESSION_MILLIS = 15 * 60_000
"""How long a session is remembered after its last lease has ended."""


@dataclass(slots=True)
class Session:
    """A session: the proxy of its latest lease, and how many of its leases run."""

    proxy_id: str
    leases: int = 0


class Sessions:
    """Sessions by the hash of their name.

    Attributes:
        idle: When those without a running lease are forgotten.
    """

    def __init__(self, budget: Budget, ids: SharedProxyIds) -> None:
        self._budget = budget
        self._ids = ids
        self._by_hash: dict[str, Session] = {}
        self.idle: Deadlines[str] = Deadlines()

    def __len__(self) -> int:
        return len(self._by_hash)

    def of(self, session: str) -> Session | None:
        """Return a session that is remembered."""
        return self._by_hash.get(session)

    def cost(self, session: str) -> int:
        """Return what one more lease of the session takes at most; "" is no session."""
        if not session:
            return 0
        known = self._by_hash.get(session)
        own = 0 if known is not None and known.leases else lease_budget.SESSION_BYTES
        return own + lease_budget.SESSION_USE_BYTES

    def join(self, session: str, proxy_id: str) -> None:
        """Count one more lease of the session, which sticks to this lease's proxy from now on."""
        known = self._by_hash.get(session)
        if known is None:
            known = self._add(session, proxy_id)
        elif known.leases:
            self._budget.used += lease_budget.SESSION_USE_BYTES
        self.idle.discard(session)
        self.move(session, proxy_id)
        known.leases += 1

    def leave(self, session: str, when: int) -> None:
        """Count one lease less; it ended at ``when``, in Unix milliseconds."""
        known = self._by_hash[session]
        known.leases -= 1
        if known.leases:
            self._budget.used -= lease_budget.SESSION_USE_BYTES
        else:
            self.idle.set(session, when + SESSION_MILLIS)

    def move(self, session: str, proxy_id: str) -> None:
        """Let a known session stick to this proxy."""
        known = self._by_hash[session]
        self._ids.take(proxy_id)
        self._ids.drop(known.proxy_id)
        known.proxy_id = proxy_id

    def restore(self, leases: Sequence[tuple[str, str]]) -> None:
        """Take over the sessions of running leases from an earlier table, as (session, proxy id); none may be known."""
        for session, proxy_id in leases:
            known = self._by_hash.get(session)
            if known is None:
                self._by_hash[session] = Session(proxy_id, 1)
            else:
                known.proxy_id = proxy_id
                known.leases += 1
        self._ids.take_all(known.proxy_id for known in self._by_hash.values())
        self._budget.used += lease_budget.SESSION_BYTES * len(self._by_hash)
        self._budget.used += lease_budget.SESSION_USE_BYTES * len(leases)

    def restore_idle(self, session: str, proxy_id: str, until: int) -> None:
        """Take over a session without leases from an earlier table."""
        self._add(session, proxy_id)
        self.idle.set(session, until)

    def forget_idle(self, now: int) -> None:
        """Forget those whose time is over."""
        for session in self.idle.pop_due(now):
            self._remove(session)

    def forget(self, session: str) -> None:
        """Forget one that has no running lease."""
        self.idle.discard(session)
        self._remove(session)

    def idle_rows(self) -> Iterator[tuple[int, str, str]]:
        """Yield (end, session, proxy id) of each without a running lease."""
        for session, known in self._by_hash.items():
            if not known.leases:
                yield self.idle.of(session), session, known.proxy_id

    def _add(self, session: str, proxy_id: str) -> Session:
        known = self._by_hash[session] = Session(proxy_id)
        self._ids.take(proxy_id)
        self._budget.used += lease_budget.SESSION_BYTES + lease_budget.SESSION_USE_BYTES
        return known

    def _remove(self, session: str) -> None:
        self._ids.drop(self._by_hash.pop(session).proxy_id)
        self._budget.used -= lease_budget.SESSION_BYTES + lease_budget.SESSION_USE_BYTES
