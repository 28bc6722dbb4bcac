"""Turns for creates: at most so many at a time, first come first served, and nobody waits inside."""

import contextlib
import time
from collections.abc import Callable, Iterator

from model.errors import NoTurnError

SHORTEST_WAIT_SECONDS = 1.0
LONGEST_WAIT_SECONDS = 5.0
FORGOTTEN_AFTER_SECONDS = 3 * LONGEST_WAIT_SECONDS
"""Whoever has not asked for so long went elsewhere, to another worker for instance, and holds nobody up."""


class Turns:
    """The turns of one provider in one process; used from one event loop."""

    def __init__(self, limit: int, clock: Callable[[], float] = time.monotonic) -> None:
        """Give ``limit`` turns at a time; ``clock`` is in seconds."""
        self._limit = limit
        self._clock = clock
        self._taken = 0
        self._asked_at: dict[str, float] = {}

    @contextlib.contextmanager
    def turn(self, name: str) -> Iterator[None]:
        """Hold a turn.

        Raises:
            NoTurnError: There is none, or those that came first have not had theirs; ``name`` keeps its place in the
                queue as long as it asks again in time.
        """
        self._take(name)
        try:
            yield
        finally:
            self._taken -= 1

    def _take(self, name: str) -> None:
        now = self._clock()
        self._forget(now)
        # A new value under an old key keeps the key's place.
        self._asked_at[name] = now
        place = list(self._asked_at).index(name)
        if place >= self._limit - self._taken:
            wait = min(LONGEST_WAIT_SECONDS, SHORTEST_WAIT_SECONDS + place / self._limit)
            raise NoTurnError(f"{self._limit} creates at a time (maxConcurrentCreates), {place} wait before it", wait)
        del self._asked_at[name]
        self._taken += 1

    def _forget(self, now: float) -> None:
        gone = [name for name, asked_at in self._asked_at.items() if now - asked_at > FORGOTTEN_AFTER_SECONDS]
        for name in gone:
            del self._asked_at[name]
