"""How much the lease table may hold: what its snapshot takes, counted while it grows.

The counts are upper bounds for the compressed snapshot (a test compares them with real ones): what is random counts in
full, texts that occur often count once.
"""

SNAPSHOT_BYTES_LIMIT = 1536 * 1024
"""Temporal refuses a payload of 2 MiB, and would go on refusing it for ever."""

LEASE_BYTES = 30
COOLDOWN_BYTES = 14
RELEASED_BYTES = 18
GONE_BYTES = 48
PROXY_BYTES = 36
"""Besides its texts."""
_TEXT_BYTES = 8


def text_bytes(text: str) -> int:
    """Return what a text of its own takes."""
    return len(text.encode("utf-8", "surrogatepass")) + _TEXT_BYTES


def identifier_bytes(text: str) -> int:
    """Return what an id or address takes: its few kinds of characters compress to 6 bits at most."""
    return len(text) * 3 // 4 + 1


class Budget:
    """A running total of bytes against a limit."""

    def __init__(self, limit: int = SNAPSHOT_BYTES_LIMIT) -> None:
        self.limit = limit
        self.used = 0

    def has_room(self, size: int) -> bool:
        """Whether that much more fits."""
        return self.used + size <= self.limit


class SharedTexts:
    """Texts that many entries name: each counts once, for as long as anything names it."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._uses: dict[str, int] = {}

    def cost(self, text: str) -> int:
        """Return what one more use of the text would take."""
        return 0 if text in self._uses else text_bytes(text)

    def take(self, text: str) -> None:
        """Count one use."""
        uses = self._uses.get(text, 0)
        if not uses:
            self._budget.used += text_bytes(text)
        self._uses[text] = uses + 1

    def drop(self, text: str) -> None:
        """Take one use back."""
        uses = self._uses[text] - 1
        if uses:
            self._uses[text] = uses
        else:
            del self._uses[text]
            self._budget.used -= text_bytes(text)
