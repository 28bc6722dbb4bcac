"""Why nothing could be leased, and when it can: counted once, however many ask."""

from model.lease_answers import NoMatch
from model.lease_cooldowns import EVERY_TARGET, Cooldowns
from model.lease_index import NEVER, LeasableProxy, SelectorGroup, SelectorIndex

_WORK_PER_PROXY = 3


class Refusals:
    """The refusals of one moment, by selector and target.

    Where nothing is free, granting and releasing change no count: what is neither unhealthy nor resting is at capacity.
    Whatever else changes a count must be followed by ``clear``.
    """

    def __init__(self, index: SelectorIndex, cooldowns: Cooldowns) -> None:
        self._index = index
        self._cooldowns = cooldowns
        self._known: dict[tuple[SelectorGroup, str], tuple[int, NoMatch]] = {}

    def clear(self) -> None:
        """Forget what was counted."""
        self._known.clear()

    def known(self, group: SelectorGroup, target: str) -> NoMatch | None:
        """Return the refusal if nothing can have become free since it was made."""
        entry = self._known.get(self._key(group, target))
        return entry[1] if entry is not None and entry[0] == self._index.offers else None

    def refuse(self, group: SelectorGroup, target: str) -> NoMatch:
        """Return the refusal; that nothing is free must be known."""
        key = self._key(group, target)
        entry = self._known.get(key)
        refusal = self._count(*key) if entry is None else entry[1]
        self._known[key] = (self._index.offers, refusal)
        return refusal

    def earliest_of(self, proxy: LeasableProxy, target: str) -> int:
        """Return when time alone makes a proxy free, in Unix milliseconds; 0 when it does not."""
        if not proxy.usable:
            return 0
        return _or_zero(max(proxy.slot_free_at(), self._rests_until(proxy.id, target)))

    def _key(self, group: SelectorGroup, target: str) -> tuple[SelectorGroup, str]:
        # Targets that nothing rests from all get the same answer, so that a flood of them is counted once.
        return group, target if self._cooldowns.of(target) else EVERY_TARGET

    def _rests_until(self, proxy_id: str, target: str) -> int:
        return max(self._cooldowns.of(EVERY_TARGET).get(proxy_id, 0), self._cooldowns.of(target).get(proxy_id, 0))

    def _count(self, group: SelectorGroup, target: str) -> NoMatch:
        everywhere, here = self._cooldowns.of(EVERY_TARGET), self._cooldowns.of(target)
        unhealthy = in_cooldown = 0
        earliest = NEVER
        for proxy in group.members:
            if not proxy.usable:
                unhealthy += 1
                continue
            free_at = proxy.slot_free_at()
            if proxy.id in everywhere or proxy.id in here:
                in_cooldown += 1
                free_at = max(free_at, self._rests_until(proxy.id, target))
            if free_at < earliest:
                earliest = free_at
        considered = len(group.members)
        self._index.work += _WORK_PER_PROXY * considered
        return NoMatch(considered, considered - unhealthy - in_cooldown, in_cooldown, unhealthy, _or_zero(earliest))


def _or_zero(moment: int) -> int:
    return 0 if moment == NEVER else moment
