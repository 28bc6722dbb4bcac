"""The lease table as bytes, for the run that continues it.

A byte with the format, then three parts, each behind its length: JSON under zlib, lease ids, and raw bytes. The JSON is
columns: numbers that grow together are stored as differences, texts that occur often once. Hashes and UUIDs are random
and stand raw. The same table always gives the same bytes.

Nobody gets a lease while it is written and read, so everything is done a column at a time.
"""

import itertools
import json
import zlib
from typing import Any

from model import lease_snapshot_sessions, lease_snapshot_v1
from model.lease_blob import BlobReader
from model.lease_book import Lease
from model.lease_index import LeasableProxy
from model.lease_keys import HASH_BYTES
from model.lease_operations import ProxyView, Transition
from model.lease_snapshot_words import (
    hash_words,
    pack_hashes,
    pack_ids,
    pack_uuids,
    unpack_ids,
    unpack_uuids,
)
from model.leases import LeaseTable

_FORMAT = b"\x02"
"""The first format began as zlib does, with another byte."""
_LENGTH_BYTES = 4
_COMPRESSION_LEVEL = 4
_REVOKED, _RELEASED, _KEYED = 1, 2, 4


class _Places:
    """Numbers texts in the order they come up."""

    def __init__(self) -> None:
        self.place: dict[str, int] = {}

    def of(self, text: str) -> int:
        return self.place.setdefault(text, len(self.place))


def dump(table: LeaseTable) -> bytes:
    """Return the snapshot of a table."""
    texts = _Places()
    proxies = [table.proxies.by_id[proxy_id] for proxy_id in sorted(table.proxies.by_id)]
    lease_ids = sorted(sorted(table.leases.by_id), key=lambda lease_id: table.leases.by_id[lease_id].expires)
    leases = [table.leases.by_id[lease_id] for lease_id in lease_ids]
    ids, other_ids = pack_ids([*lease_ids, *table.leases.released])
    uuids, other_uuids = pack_uuids([*(proxy.uid for proxy in proxies), *(proxy.view.instance for proxy in proxies)])
    bodies = pack_hashes([lease.body for lease in leases])
    sessions, session_hashes = lease_snapshot_sessions.dump(table, leases, texts.of)
    body = {
        "now": table.now,
        "primed": table.primed,
        "proxies": _dump_proxies(table.now, proxies, texts),
        "leases": _dump_leases(table.now, leases, texts),
        "sessions": sessions,
        "cooldowns": _dump_cooldowns(table, texts),
        "doubts": _dump_doubts(table, texts),
        "gone": [[uid, *order] for uid, order in table.proxies.gone.items()],
        "texts": list(texts.place),
        "ids": other_ids,
        "uuids": other_uuids,
        "hashes": len(bodies) // HASH_BYTES,
    }
    text = json.dumps(body, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "surrogatepass")
    parts = (zlib.compress(text, _COMPRESSION_LEVEL), ids, uuids, bodies + pack_hashes(session_hashes))
    return _FORMAT + b"".join(len(part).to_bytes(_LENGTH_BYTES, "big") + part for part in parts)


def load(snapshot: bytes) -> LeaseTable:
    """Return the table of a snapshot."""
    if snapshot[:1] != _FORMAT:
        return lease_snapshot_v1.load(snapshot)
    reader = BlobReader(snapshot[1:])
    text, ids, uuids, raw = (reader.take(int.from_bytes(reader.take(_LENGTH_BYTES), "big")) for _ in range(4))
    body = json.loads(zlib.decompress(text).decode("utf-8", "surrogatepass"))
    texts, hashes = body["texts"], hash_words(raw)
    lease_ids = unpack_ids(ids, body["ids"])
    table = LeaseTable()
    table.now, table.primed = body["now"], body["primed"]
    _load_proxies(table, body["proxies"], texts, unpack_uuids(uuids, body["uuids"]))
    rows = _read_leases(table.now, body["leases"], texts, hashes[: body["hashes"]])
    sessions = lease_snapshot_sessions.read(body["sessions"], rows, hashes[body["hashes"] :])
    table.restore_leases(dict(zip(lease_ids, rows, strict=False)))
    lease_snapshot_sessions.load(table, body["sessions"], sessions, texts)
    for target, proxy_id, left in zip(*body["cooldowns"], strict=True):
        table.rest(texts[target], texts[proxy_id], table.now + left)
    for proxy_id, left in body["doubts"]:
        table.restore_doubt(texts[proxy_id], left)
    for lease_id in lease_ids[len(rows) :]:
        table.leases.remember_released(lease_id)
    for uid, start, counter in body["gone"]:
        table.proxies.remember_gone(uid, (start, counter))
    return table


def _dump_proxies(now: int, proxies: list[LeasableProxy], texts: _Places) -> list[list[Any]]:
    rows = []
    # Many proxies have the same few attributes.
    written: dict[tuple[tuple[str, str], ...], str] = {}
    for proxy in proxies:
        view = proxy.view
        attributes = tuple(view.attributes.items())
        if attributes not in written:
            written[attributes] = json.dumps(view.attributes, ensure_ascii=False)
        rows.append(
            (
                texts.of(proxy.id),
                *proxy.order,
                view.ip,
                view.port,
                texts.of(written[attributes]),
                texts.of(view.phase),
                int(view.healthy),
                view.latency_millis,
                view.max_leases,
                int(view.leasable),
                view.drain_ends_at and [view.drain_ends_at - now],
            )
        )
    return _columns(rows)


def _load_proxies(table: LeaseTable, columns: list[list[Any]], texts: list[str], uuids: list[str]) -> None:
    count = len(uuids) // 2
    attributes: dict[int, dict[str, str]] = {}
    for uid, instance, row in zip(uuids[:count], uuids[count:], zip(*columns, strict=True), strict=True):
        place, start, counter, ip, port, marks, phase, healthy, latency, most, leasable, drain = row
        if marks not in attributes:
            attributes[marks] = json.loads(texts[marks])
        view = ProxyView(
            ip=ip,
            port=port,
            attributes=attributes[marks],
            phase=texts[phase],
            healthy=bool(healthy),
            latency_millis=latency,
            max_leases=most,
            leasable=bool(leasable),
            instance=instance,
            drain_ends_at=table.now + drain[0] if drain else 0,
        )
        table.proxies.add(Transition(texts[place], uid, (start, counter), view))


def _dump_leases(now: int, leases: list[Lease], texts: _Places) -> list[list[int]]:
    ends = [now, *(lease.expires for lease in leases)]
    return [
        [texts.of(lease.proxy_id) for lease in leases],
        [texts.of(lease.target) for lease in leases],
        [later - earlier for earlier, later in itertools.pairwise(ends)],
        [lease.ttl for lease in leases],
        [lease.retain for lease in leases],
        [_REVOKED * lease.revoked + _RELEASED * lease.released + (_KEYED if lease.body else 0) for lease in leases],
    ]


def _read_leases(now: int, columns: list[list[int]], texts: list[str], bodies: list[str]) -> list[Lease]:
    proxy_ids, targets, steps, ttls, retains, flags = columns
    ends = list(itertools.accumulate(steps, initial=now))[1:]
    body = iter(bodies)
    return [
        Lease(
            texts[proxy_id],
            texts[target],
            expires,
            ttl,
            retain,
            next(body) if flag & _KEYED else "",
            "",
            bool(flag & _REVOKED),
            bool(flag & _RELEASED),
        )
        for proxy_id, target, expires, ttl, retain, flag in zip(
            proxy_ids, targets, ends, ttls, retains, flags, strict=True
        )
    ]


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


def _columns(rows: list[tuple[Any, ...]]) -> list[list[Any]]:
    return [list(column) for column in zip(*rows, strict=True)]
