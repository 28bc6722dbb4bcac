"""How much the lease table may hold: what its snapshot takes, counted while it grows.

The counts are upper bounds for the compressed snapshot (a test compares them with real ones): what is random counts in
full, texts that occur often count once.
"""

from collections import Counter
from collections.abc import Callable, Iterable

from model import lease_ids

SNAPSHOT_BYTES_LIMIT = 1536 * 1024
"""Temporal refuses a payload of 2 MiB, and would go on refusing it for ever."""

LEASE_BYTES = 25
KEY_BYTES = 8
"""What an idempotency key adds to its lease: the hash of what was asked for."""
SESSION_BYTES = 9
SESSION_USE_BYTES = 3
"""For each lease of a session, and for a session without any."""
COOLDOWN_BYTES = 14
RELEASED_BYTES = 18
GONE_BYTES = 48
DOUBT_BYTES = 8
PROXY_BYTES = 20
"""Besides its texts."""
DRAIN_BYTES = 8
"""For the end of a proxy's drain. It counts and is never refused: all at once stay far below what Temporal takes."""
_TEXT_BYTES = 8
_NAME_BYTES = 5
_UUID_BYTES = 17


def text_bytes(text: str) -> int:
    """Return what a text of its own takes."""
    return len(text.encode("utf-8", "surrogatepass")) + _TEXT_BYTES


def identifier_bytes(text: str) -> int:
    """Return what an id or address takes: its few kinds of characters compress to 6 bits at most, a UUID to its own."""
    return _UUID_BYTES if lease_ids.uuid_to_bytes(text) else len(text) * 3 // 4 + 1


class Budget:
    """A running total of bytes against a limit."""

    def __init__(self, limit: int = SNAPSHOT_BYTES_LIMIT) -> None:
        self.limit = limit
        self.used = 0

    def has_room(self, size: int) -> bool:
        """Whether that much more fits; what takes nothing always does."""
        return size <= 0 or self.used + size <= self.limit


class SharedTexts:
    """Texts that many entries name: each counts once, for as long as anything names it."""

    def __init__(self, budget: Budget, size: Callable[[str], int] = text_bytes) -> None:
        self._budget = budget
        self._size = size
        self._uses: dict[str, int] = {}

    def cost(self, text: str) -> int:
        """Return what one more use of the text would take."""
        return 0 if text in self._uses else self._size(text)

    def take(self, text: str, uses: int = 1) -> None:
        """Count one use, or so many."""
        before = self._uses.get(text, 0)
        if not before:
            self._budget.used += self._size(text)
        self._uses[text] = before + uses

    def take_all(self, texts: Iterable[str]) -> None:
        """Count one use of each."""
        for text, uses in Counter(texts).items():
            self.take(text, uses)

    def drop(self, text: str) -> None:
        """Take one use back."""
        uses = self._uses[text] - 1
        if uses:
            self._uses[text] = uses
        else:
            del self._uses[text]
            self._budget.used -= self._size(text)


class SharedProxyIds(SharedTexts):
    """Ids of proxies; the namespaces in them are shared in turn."""

    def __init__(self, budget: Budget) -> None:
        super().__init__(budget, _name_bytes)
        self._namespaces = SharedTexts(budget)

    def cost(self, text: str) -> int:
        """Return what one more use of the id would take."""
        return 0 if text in self._uses else super().cost(text) + self._namespaces.cost(_namespace(text))

    def take(self, text: str, uses: int = 1) -> None:
        """Count one use, or so many."""
        if text not in self._uses:
            self._namespaces.take(_namespace(text))
        super().take(text, uses)

    def drop(self, text: str) -> None:
        """Take one use back."""
        super().drop(text)
        if text not in self._uses:
            self._namespaces.drop(_namespace(text))


def _namespace(proxy_id: str) -> str:
    return proxy_id.partition("/")[0]


def _name_bytes(proxy_id: str) -> int:
    return identifier_bytes(proxy_id.partition("/")[2]) + _NAME_BYTES
