"""What the lease broker answers, and how it travels.

The answers to a batch are one JSON object with one answer for each operation, in the same order. Each is an array that
starts with its one-letter code; a proxy's view travels once, however many leases were granted on it.
"""

import json
from enum import StrEnum
from typing import Any, NamedTuple

from model.lease_operations import Order, ProxyView


class Granted(NamedTuple):
    """A lease; ``active_leases`` counts it, and ``ttl_millis`` is what it was last granted for."""

    proxy_id: str
    view: ProxyView
    active_leases: int
    expires_millis: int
    ttl_millis: int


class NoMatch(NamedTuple):
    """No lease: of ``considered`` proxies each is counted under the first reason that holds.

    Attributes:
        earliest_millis: When time alone makes one of the healthy ones free, in Unix milliseconds; 0: it does not. What
            other operations of the same batch changed may be missing in it.
    """

    considered: int
    at_capacity: int
    in_cooldown: int
    unhealthy: int
    earliest_millis: int = 0


class SessionUnavailable(NamedTuple):
    """No lease: the session's own proxy cannot be leased; ``earliest_millis`` is as in ``NoMatch``, of this proxy."""

    earliest_millis: int


class Stale(NamedTuple):
    """Something newer about this proxy is known already."""

    order: Order


class Word(StrEnum):
    """The answers that are a word; the values are their codes."""

    DONE = "d"
    """Done, now or by an earlier copy of the operation."""
    UNKNOWN_LEASE = "u"
    """There is no such lease (any more)."""
    LEASE_ENDED = "e"
    """The lease of this id ended, was given back, released or revoked before this operation came."""
    REVOKED = "v"
    """The instance that the lease was made on is no more."""
    KEY_REUSED = "k"
    """The idempotency key stands for a lease that something else was asked for."""
    UNPRIMED = "p"
    """The broker does not know the proxies yet."""
    FULL = "f"
    """The broker's budget is used up: the lease, cooldown or proxy was not taken on."""
    AGAIN = "~"
    """Not looked at: the batch was too much at once. Send this operation again."""


Answer = Granted | NoMatch | SessionUnavailable | Stale | Word


class AnswerWriter:
    """Collects the answers of a batch.

    Attributes:
        size: Bytes of the answers so far, near enough for a limit.
    """

    def __init__(self) -> None:
        self.size = 0
        self._views: list[str] = []
        self._granted: list[ProxyView] = []
        self._places: dict[int, int] = {}
        self._answers: list[str] = []

    def add(self, answer: Answer) -> None:
        """Append one answer."""
        encoded = self._encode(answer)
        self._answers.append(encoded)
        self.size += len(encoded) + 1

    def text(self) -> str:
        """Return the answers as they travel."""
        return f'{{"views":[{",".join(self._views)}],"answers":[{",".join(self._answers)}]}}'

    def _encode(self, answer: Answer) -> str:
        if isinstance(answer, Granted):
            return f'["g",{self._place(answer)},{answer.active_leases},{answer.expires_millis},{answer.ttl_millis}]'
        if isinstance(answer, NoMatch):
            return json.dumps(["n", *answer], separators=(",", ":"))
        if isinstance(answer, SessionUnavailable):
            return f'["x",{answer.earliest_millis}]'
        if isinstance(answer, Stale):
            return json.dumps(["s", answer.order], separators=(",", ":"))
        return f'["{answer.value}"]'

    def _place(self, answer: Granted) -> int:
        # Views are told apart by identity, which is good as long as they live; hashing them would cost more than
        # everything else about a grant.
        place = self._places.get(id(answer.view))
        if place is None:
            place = self._places[id(answer.view)] = len(self._views)
            self._granted.append(answer.view)
            encoded = json.dumps([answer.proxy_id, *answer.view.told], separators=(",", ":"))
            self._views.append(encoded)
            self.size += len(encoded) + 1
        return place


def decode_answers(text: str) -> list[Answer]:
    """Read the answers to a batch."""
    body = json.loads(text)
    views = [(row[0], ProxyView(*row[1:])) for row in body["views"]]
    return [_decode_answer(row, views) for row in body["answers"]]


def _decode_answer(row: list[Any], views: list[tuple[str, ProxyView]]) -> Answer:
    if row[0] == "g":
        proxy_id, view = views[row[1]]
        return Granted(proxy_id, view, row[2], row[3], row[4])
    if row[0] == "n":
        return NoMatch(*row[1:])
    if row[0] == "x":
        return SessionUnavailable(row[1])
    if row[0] == "s":
        return Stale((row[1][0], row[1][1]))
    return Word(row[0])
