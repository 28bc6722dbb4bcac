"""Things that end at a time of their own."""

import heapq
from collections.abc import Iterator
from typing import Generic, TypeVar

Key = TypeVar("Key", str, tuple[str, str])

_SLACK = 1024


class Deadlines(Generic[Key]):
    """Keys with a time each, in order of time and then of key.

    A changed or discarded key leaves its old heap entry behind; the heap is rebuilt when most of it is such rubbish.
    """

    def __init__(self) -> None:
        self._due: dict[Key, int] = {}
        self._heap: list[tuple[int, Key]] = []

    def __len__(self) -> int:
        return len(self._due)

    def __contains__(self, key: Key) -> bool:
        return key in self._due

    def set(self, key: Key, when: int) -> None:
        """Add a key, or move it to another time."""
        if self._due.get(key) == when:
            return
        self._due[key] = when
        heapq.heappush(self._heap, (when, key))
        if len(self._heap) > 2 * len(self._due) + _SLACK:
            self._heap = [(due, key) for key, due in self._due.items()]
            heapq.heapify(self._heap)

    def restore(self, due: dict[Key, int]) -> None:
        """Take over many keys with their times; nothing may be there yet."""
        self._due = due
        # What is sorted is a heap.
        self._heap = sorted((when, key) for key, when in due.items())

    def discard(self, key: Key) -> None:
        """Forget a key, known or not."""
        self._due.pop(key, None)

    def of(self, key: Key) -> int:
        """Return when a key ends, 0 for one that is not there."""
        return self._due.get(key, 0)

    def earliest(self) -> tuple[int, Key] | None:
        """Return the time and the key that ends first."""
        while self._heap:
            when, key = self._heap[0]
            if self._due.get(key) == when:
                return when, key
            heapq.heappop(self._heap)
        return None

    def pop_due(self, now: int) -> Iterator[Key]:
        """Remove and yield every key whose time is ``now`` or earlier."""
        while self._heap and self._heap[0][0] <= now:
            when, key = heapq.heappop(self._heap)
            if self._due.get(key) == when:
                del self._due[key]
                yield key

    def count_due(self, now: int) -> int:
        """Count the keys whose time is ``now`` or earlier, and change nothing."""
        return sum(1 for _ in self.due(now))

    def due(self, now: int) -> Iterator[Key]:
        """Yield the keys whose time is ``now`` or earlier, in no order, and change nothing."""
        if self._heap and self._heap[0][0] <= now:
            yield from (key for key, when in self._due.items() if when <= now)
