"""The sessions of the lease table in its snapshot.

A session of one running lease, the usual case, is its hash and next to nothing else: sessions are numbered as their
leases come up, and only a session that does not stick to the proxy of the last of them says to which.
"""

from collections.abc import Callable, Iterable
from typing import Any

from model.lease_blob import BlobReader
from model.lease_book import Lease
from model.lease_keys import HASH_BYTES
from model.leases import LeaseTable

_NONE, _NEXT, _FIRST = 0, 1, 2
"""Values of the leases' column: no session, one that did not come up yet, and from here on those that did."""


def dump(
    table: LeaseTable, leases: Iterable[Lease], place_of: Callable[[str], int], blob: bytearray
) -> dict[str, list[Any]]:
    """Return the sessions of these leases in order, and those without any; hashes go to ``blob``."""
    numbers: dict[str, int] = {}
    column: list[int] = []
    implied: dict[str, str] = {}
    for lease in leases:
        number = numbers.get(lease.session)
        if not lease.session:
            column.append(_NONE)
            continue
        if number is not None:
            column.append(_FIRST + number)
        else:
            column.append(_NEXT)
            numbers[lease.session] = len(numbers)
            blob.extend(bytes.fromhex(lease.session))
        implied[lease.session] = lease.proxy_id
    moved = [
        [number, place_of(session.proxy_id)]
        for name, number in numbers.items()
        if (session := table.sessions.of(name)) is not None and session.proxy_id != implied[name]
    ]
    idle: list[list[int]] = [[], []]
    former = table.now
    for until, name, proxy_id in sorted(table.sessions.idle_rows()):
        blob.extend(bytes.fromhex(name))
        idle[0].append(until - former)
        idle[1].append(place_of(proxy_id))
        former = until
    return {"leases": column, "moved": moved, "idle": idle}


def read(body: dict[str, list[Any]], leases: Iterable[Lease], blob: BlobReader) -> list[str]:
    """Write the sessions into the leases; return all, those without a lease last."""
    sessions: list[str] = []
    for lease, value in zip(leases, body["leases"], strict=True):
        if value == _NEXT:
            sessions.append(blob.take(HASH_BYTES).hex())
            lease.session = sessions[-1]
        elif value != _NONE:
            lease.session = sessions[value - _FIRST]
    return sessions + [blob.take(HASH_BYTES).hex() for _ in body["idle"][0]]


def load(table: LeaseTable, body: dict[str, list[Any]], sessions: list[str], texts: list[str]) -> None:
    """Restore what the leases alone did not; they must have been restored."""
    for number, proxy_id in body["moved"]:
        table.sessions.move(sessions[number], texts[proxy_id])
    steps, places = body["idle"]
    until = table.now
    for session, step, proxy_id in zip(sessions[len(sessions) - len(steps) :], steps, places, strict=True):
        until += step
        table.sessions.restore_idle(session, texts[proxy_id], until)
