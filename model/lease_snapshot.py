"""The lease table as bytes, for the run that continues it.

zlib over one line of JSON, a newline, and raw bytes. The JSON is columns: numbers that grow together are stored as
differences, texts that occur often once. Lease ids of ours and UUIDs are random and stand as their 16 bytes, hashes as
their 8. The same table always gives the same bytes.
"""

import json
import zlib
from typing import Any

from model import lease_ids, lease_snapshot_sessions
from model.lease_blob import BlobReader
from model.lease_book import Lease
from model.lease_keys import HASH_BYTES
from model.lease_operations import ProxyView, Transition
from model.leases import LeaseTable

_COMPRESSION_LEVEL = 6
_LEASE_COLUMNS = 9


class _Places:
    """Numbers texts in the order they come up."""

    def __init__(self) -> None:
        self.place: dict[str, int] = {}

    def of(self, text: str) -> int:
        return self.place.setdefault(text, len(self.place))


def dump(table: LeaseTable) -> bytes:
    """Return the snapshot of a table."""
    texts, blob = _Places(), bytearray()
    leases = sorted(table.leases.by_id.items(), key=lambda item: (item[1].expires, item[0]))
    body = {
        "now": table.now,
        "primed": table.primed,
        "proxies": _dump_proxies(table, texts, blob),
        "leases": _dump_leases(table, leases, texts, blob),
        "sessions": lease_snapshot_sessions.dump(table, [lease for _, lease in leases], texts.of, blob),
        "cooldowns": _dump_cooldowns(table, texts),
        "doubts": _dump_doubts(table, texts),
        "released": [_dump_id(lease_id, blob) for lease_id in table.leases.released],
        "gone": [[uid, *order] for uid, order in table.proxies.gone.items()],
        "texts": list(texts.place),
    }
    text = json.dumps(body, separators=(",", ":"), ensure_ascii=False)
    return zlib.compress(text.encode("utf-8", "surrogatepass") + b"\n" + bytes(blob), _COMPRESSION_LEVEL)


def load(snapshot: bytes) -> LeaseTable:
    """Return the table of a snapshot."""
    text, _, raw = zlib.decompress(snapshot).partition(b"\n")
    body = json.loads(text.decode("utf-8", "surrogatepass"))
    texts, blob = body["texts"], BlobReader(raw)
    table = LeaseTable()
    table.now, table.primed = body["now"], body["primed"]
    _load_proxies(table, body["proxies"], texts, blob)
    leases = _read_leases(table.now, body["leases"], texts, blob)
    sessions = lease_snapshot_sessions.read(body["sessions"], [lease for _, lease in leases], blob)
    for lease_id, lease in leases:
        table.restore_lease(lease_id, lease)
    lease_snapshot_sessions.load(table, body["sessions"], sessions, texts)
    for target, proxy_id, left in zip(*body["cooldowns"], strict=True):
        table.rest(texts[target], texts[proxy_id], table.now + left)
    for proxy_id, left in body["doubts"]:
        table.restore_doubt(texts[proxy_id], left)
    for entry in body["released"]:
        table.leases.remember_released(_read_id(entry, blob))
    for uid, start, counter in body["gone"]:
        table.proxies.remember_gone(uid, (start, counter))
    return table


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


def _load_proxies(table: LeaseTable, rows: list[list[Any]], texts: list[str], blob: BlobReader) -> None:
    for place, uid, start, counter, ip, port, attributes, phase, healthy, latency, most, leasable, instance in rows:
        uid = _read_uuid(uid, blob)
        view = ProxyView(
            ip=ip,
            port=port,
            attributes=json.loads(texts[attributes]),
            phase=texts[phase],
            healthy=bool(healthy),
            latency_millis=latency,
            max_leases=most,
            leasable=bool(leasable),
            instance=_read_uuid(instance, blob),
        )
        table.proxies.add(Transition(texts[place], uid, (start, counter), view))


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


def _read_leases(now: int, columns: list[list[Any]], texts: list[str], blob: BlobReader) -> list[tuple[str, Lease]]:
    leases = []
    expires = now
    for entry, proxy_id, target, step, ttl, retain, revoked, released, keyed in zip(*columns, strict=True):
        expires += step
        lease_id = _read_id(entry, blob)
        lease = Lease(
            texts[proxy_id],
            texts[target],
            expires,
            ttl,
            retain,
            body=blob.take(HASH_BYTES).hex() if keyed else "",
            revoked=bool(revoked),
            released=bool(released),
        )
        leases.append((lease_id, lease))
    return leases


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


def _read_id(entry: int | str, blob: BlobReader) -> str:
    return entry if isinstance(entry, str) else lease_ids.from_bytes(blob.take(lease_ids.RAW_BYTES))


def _dump_uuid(text: str, blob: bytearray) -> int | str:
    raw = lease_ids.uuid_to_bytes(text)
    if raw is None:
        return text
    blob.extend(raw)
    return 0


def _read_uuid(entry: int | str, blob: BlobReader) -> str:
    return entry if isinstance(entry, str) else lease_ids.uuid_from_bytes(blob.take(lease_ids.RAW_BYTES))
