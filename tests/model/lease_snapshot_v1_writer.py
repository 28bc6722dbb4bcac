"""Writes the first format of snapshots, which running brokers of earlier releases may begin with."""

import json
import zlib
from collections.abc import Callable, Iterable
from typing import Any

from model import lease_ids
from model.lease_book import Lease
from model.leases import LeaseTable

_COMPRESSION_LEVEL = 6
_LEASE_COLUMNS = 9
_NONE, _NEXT, _FIRST = 0, 1, 2


class _Places:
    """Numbers texts in the order they come up."""

    def __init__(self) -> None:
        self.place: dict[str, int] = {}

    def of(self, text: str) -> int:
        return self.place.setdefault(text, len(self.place))


def dump(table: LeaseTable, *, drains: bool = False) -> bytes:
    """Return the snapshot of a table; the earliest had no drains."""
    texts, blob = _Places(), bytearray()
    leases = sorted(table.leases.by_id.items(), key=lambda item: (item[1].expires, item[0]))
    body = {
        "now": table.now,
        "primed": table.primed,
        "proxies": _dump_proxies(table, texts, blob),
        **({"drains": _dump_drains(table, texts)} if drains else {}),
        "leases": _dump_leases(table, leases, texts, blob),
        "sessions": _dump_sessions(table, [lease for _, lease in leases], texts.of, blob),
        "cooldowns": _dump_cooldowns(table, texts),
        "doubts": _dump_doubts(table, texts),
        "released": [_dump_id(lease_id, blob) for lease_id in table.leases.released],
        "gone": [[uid, *order] for uid, order in table.proxies.gone.items()],
        "texts": list(texts.place),
    }
    text = json.dumps(body, separators=(",", ":"), ensure_ascii=False)
    return zlib.compress(text.encode("utf-8", "surrogatepass") + b"\n" + bytes(blob), _COMPRESSION_LEVEL)


def _dump_proxies(table: LeaseTable, texts: _Places, blob: bytearray) -> list[list[Any]]:
    rows = []
    for proxy_id in sorted(table.proxies.by_id):
        proxy = table.proxies.by_id[proxy_id]
        view = proxy.view
        attributes = texts.of(json.dumps(view.attributes, ensure_ascii=False))
        rows.append(
            [
                texts.of(proxy_id),
                _dump_uuid(proxy.uid, blob),
                *proxy.order,
                view.ip,
                view.port,
                attributes,
                texts.of(view.phase),
                int(view.healthy),
                view.latency_millis,
                view.max_leases,
                int(view.leasable),
                _dump_uuid(view.instance, blob),
            ]
        )
    return rows


def _dump_drains(table: LeaseTable, texts: _Places) -> list[list[int]]:
    ends = {proxy_id: proxy.view.drain_ends_at for proxy_id, proxy in table.proxies.by_id.items()}
    return [[texts.of(proxy_id), ends[proxy_id] - table.now] for proxy_id in sorted(ends) if ends[proxy_id]]


def _dump_leases(
    table: LeaseTable, leases: list[tuple[str, Lease]], texts: _Places, blob: bytearray
) -> list[list[Any]]:
    columns: list[list[Any]] = [[] for _ in range(_LEASE_COLUMNS)]
    former = table.now
    for lease_id, lease in leases:
        row = (
            _dump_id(lease_id, blob),
            texts.of(lease.proxy_id),
            texts.of(lease.target),
            lease.expires - former,
            lease.ttl,
            lease.retain,
            int(lease.revoked),
            int(lease.released),
            int(bool(lease.body)),
        )
        blob.extend(bytes.fromhex(lease.body))
        for column, value in zip(columns, row, strict=True):
            column.append(value)
        former = lease.expires
    return columns


def _dump_sessions(
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


def _dump_cooldowns(table: LeaseTable, texts: _Places) -> list[list[int]]:
    rows = sorted(table.cooldowns.rows())
    return [
        [texts.of(target) for target, _, _ in rows],
        [texts.of(proxy_id) for _, proxy_id, _ in rows],
        [until - table.now for _, _, until in rows],
    ]


def _dump_doubts(table: LeaseTable, texts: _Places) -> list[list[int]]:
    rows = []
    for proxy_id in table.doubts.proxy_ids():
        until = table.doubts.suspended_until(proxy_id)
        rows.append([texts.of(proxy_id), until - table.now if until else 0])
    return rows


def _dump_id(lease_id: str, blob: bytearray) -> int | str:
    raw = lease_ids.to_bytes(lease_id)
    if raw is None:
        return lease_id
    blob.extend(raw)
    return 0


def _dump_uuid(text: str, blob: bytearray) -> int | str:
    raw = lease_ids.uuid_to_bytes(text)
    if raw is None:
        return text
    blob.extend(raw)
    return 0
