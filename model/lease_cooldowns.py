"""How long a proxy rests from a target."""

from collections.abc import Iterator, Mapping

from model import lease_budget
from model.deadlines import Deadlines
from model.lease_budget import Budget, SharedProxyIds, SharedTexts

EVERY_TARGET = ""
"""The target of a cooldown that holds for all of them."""

_NONE: Mapping[str, int] = {}


class Cooldowns:
    """Cooldowns by target and proxy. They end by time alone, and outlive the proxy they were reported on."""

    def __init__(self, budget: Budget, targets: SharedTexts, ids: SharedProxyIds) -> None:
        self._budget = budget
        self._targets = targets
        self._ids = ids
        self._until: dict[str, dict[str, int]] = {}
        self._deadlines: Deadlines[tuple[str, str]] = Deadlines()

    def __len__(self) -> int:
        return len(self._deadlines)

    def of(self, target: str) -> Mapping[str, int]:
        """Return the proxies that rest from exactly this target, with their ends in Unix milliseconds."""
        return self._until.get(target, _NONE)

    def cost(self, target: str, proxy_id: str) -> int:
        """Return what this cooldown takes at most; 0 where it runs."""
        if proxy_id in self.of(target):
            return 0
        return lease_budget.COOLDOWN_BYTES + lease_budget.text_bytes(target) + self._ids.cost(proxy_id)

    def extend(self, target: str, proxy_id: str, until: int) -> None:
        """Let a proxy rest until then, or longer where it already does; the room for it must be there."""
        proxies = self._until.setdefault(target, {})
        if proxy_id not in proxies:
            self._budget.used += lease_budget.COOLDOWN_BYTES
            self._targets.take(target)
            self._ids.take(proxy_id)
        until = max(until, proxies.get(proxy_id, 0))
        proxies[proxy_id] = until
        self._deadlines.set((target, proxy_id), until)

    def pop_ended(self, now: int) -> Iterator[tuple[str, str]]:
        """Remove and yield (target, proxy id) of every cooldown that is over."""
        for target, proxy_id in self._deadlines.pop_due(now):
            proxies = self._until[target]
            del proxies[proxy_id]
            if not proxies:
                del self._until[target]
            self._budget.used -= lease_budget.COOLDOWN_BYTES
            self._targets.drop(target)
            self._ids.drop(proxy_id)
            yield target, proxy_id

    def running(self, now: int) -> int:
        """Count the cooldowns that are not over at ``now``."""
        return len(self._deadlines) - self._deadlines.count_due(now)

    def rows(self) -> Iterator[tuple[str, str, int]]:
        """Yield (target, proxy id, end) of each."""
        for target, proxies in self._until.items():
            for proxy_id, until in proxies.items():
                yield target, proxy_id, until
