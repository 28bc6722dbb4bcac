"""The sessions of the lease table in its snapshot.

A session of one running lease, the usual case, is its hash and next to nothing else: sessions are numbered as their
leases come up, and only a session that does not stick to the proxy of the last of them says to which.
"""

from collections.abc import Callable, Sequence
from typing import Any

from model.lease_book import Lease
from model.leases import LeaseTable

_NONE, _NEXT, _FIRST = 0, 1, 2
"""Values of the leases' column: no session, one that did not come up yet, and from here on those that did."""


def dump(
    table: LeaseTable, leases: Sequence[Lease], place_of: Callable[[str], int]
) -> tuple[dict[str, list[Any]], list[str]]:
    """Return the sessions of these leases in order, and those without any; and the hashes of all."""
    numbers: dict[str, int] = {}
    column: list[int] = []
    implied: dict[str, str] = {}
    for lease in leases:
        name = lease.session
        if not name:
            column.append(_NONE)
            continue
        if name in numbers:
            column.append(_FIRST + numbers[name])
        else:
            column.append(_NEXT)
            numbers[name] = len(numbers)
        implied[name] = lease.proxy_id
    moved = [
        [number, place_of(session.proxy_id)]
        for name, number in numbers.items()
        if (session := table.sessions.of(name)) is not None and session.proxy_id != implied[name]
    ]
    hashes = list(numbers)
    idle: list[list[int]] = [[], []]
    former = table.now
    for until, name, proxy_id in sorted(table.sessions.idle_rows()):
        hashes.append(name)
        idle[0].append(until - former)
        idle[1].append(place_of(proxy_id))
        former = until
    return {"leases": column, "moved": moved, "idle": idle}, hashes


def count(body: dict[str, list[Any]]) -> int:
    """Return how many sessions there are."""
    return body["leases"].count(_NEXT) + len(body["idle"][0])


def read(body: dict[str, list[Any]], leases: Sequence[Lease], hashes: list[str]) -> list[str]:
    """Write the sessions into the leases; return all, those without a lease last."""
    following = iter(hashes)
    for lease, value in zip(leases, body["leases"], strict=True):
        if value == _NEXT:
            lease.session = next(following)
        elif value != _NONE:
            lease.session = hashes[value - _FIRST]
    return hashes


def load(table: LeaseTable, body: dict[str, list[Any]], sessions: list[str], texts: list[str]) -> None:
    """Restore what the leases alone did not; they must have been restored."""
    for number, proxy_id in body["moved"]:
        table.sessions.move(sessions[number], texts[proxy_id])
    steps, places = body["idle"]
    until = table.now
    for session, step, proxy_id in zip(sessions[len(sessions) - len(steps) :], steps, places, strict=True):
        until += step
        table.sessions.restore_idle(session, texts[proxy_id], until)
