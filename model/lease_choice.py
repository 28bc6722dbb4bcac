"""Which proxy an acquire gets."""

from collections.abc import Mapping

from model.lease_answers import NoMatch, SessionUnavailable
from model.lease_cooldowns import Cooldowns
from model.lease_index import LeasableProxy, SelectorGroup, SelectorIndex
from model.lease_operations import Acquire
from model.lease_refusals import Refusals
from model.lease_sessions import Sessions


class LeaseChoice:
    """The session's own proxy where that can be leased; otherwise the least loaded, then quickest, then first by id.

    Attributes:
        refusals: Must be cleared when something that they count changes.
    """

    def __init__(
        self,
        index: SelectorIndex,
        cooldowns: Cooldowns,
        sessions: Sessions,
        proxies: Mapping[str, LeasableProxy],
    ) -> None:
        self.refusals = Refusals(index, cooldowns)
        self._index = index
        self._cooldowns = cooldowns
        self._sessions = sessions
        self._proxies = proxies

    def choose(self, request: Acquire) -> LeasableProxy | NoMatch | SessionUnavailable:
        """Return the proxy, or why there is none."""
        group = self._index.group(request.selector, self._proxies)
        session = self._sessions.of(request.session) if request.session else None
        if session is not None:
            proxy = self._proxies.get(session.proxy_id)
            if proxy is not None and proxy not in group.members:
                proxy = None
            if proxy is not None and proxy.rank and proxy.id not in self._cooldowns.of(request.target):
                return proxy
            if request.strict:
                return SessionUnavailable(self.refusals.earliest_of(proxy, request.target) if proxy else 0)
        refusal = self.refusals.known(group, request.target)
        if refusal is not None:
            return refusal
        return self._pick(group, request.target) or self.refusals.refuse(group, request.target)

    def _pick(self, group: SelectorGroup, target: str) -> LeasableProxy | None:
        # Proxies that rest from every target have no rank.
        resting = self._cooldowns.of(target) if target else {}
        for steps, (_, _, proxy_id) in enumerate(group.ranks):
            if proxy_id not in resting:
                self._index.work += steps
                return self._proxies[proxy_id]
        self._index.work += len(group.ranks)
        return None
