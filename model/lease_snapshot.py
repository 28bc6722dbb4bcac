"""The lease table as bytes, for the run that continues it.

zlib over one line of JSON, a newline, and the raw bytes of ids. The JSON is columns: numbers that grow together are
stored as differences, texts that occur often once, and a lease id of ours, which is random, as its 16 bytes. The same
table always gives the same bytes.
"""

import json
import zlib
from typing import Any

from model import lease_ids
from model.lease_operations import ProxyView, Transition
from model.leases import Lease, LeaseTable

_COMPRESSION_LEVEL = 6


class _Places:
    """Numbers texts in the order they come up."""

    def __init__(self) -> None:
        self.place: dict[str, int] = {}

    def of(self, text: str) -> int:
        return self.place.setdefault(text, len(self.place))


def dump(table: LeaseTable) -> bytes:
    """Return the snapshot of a table."""
    texts, blob = _Places(), bytearray()
    body = {
        "now": table.now,
        "primed": table.primed,
        "proxies": _dump_proxies(table, texts),
        "leases": _dump_leases(table, texts, blob),
        "cooldowns": _dump_cooldowns(table, texts),
        "released": [_dump_id(lease_id, blob) for lease_id in table.released],
        "gone": [[uid, *order] for uid, order in table.proxies.gone.items()],
        "texts": list(texts.place),
    }
    text = json.dumps(body, separators=(",", ":"), ensure_ascii=False)
    return zlib.compress(text.encode("utf-8", "surrogatepass") + b"\n" + bytes(blob), _COMPRESSION_LEVEL)


def load(snapshot: bytes) -> LeaseTable:
    """Return the table of a snapshot."""
    text, _, blob = zlib.decompress(snapshot).partition(b"\n")
    body = json.loads(text.decode("utf-8", "surrogatepass"))
    texts, ids = body["texts"], _IdReader(blob)
    table = LeaseTable()
    table.now, table.primed = body["now"], body["primed"]
    _load_proxies(table, body["proxies"], texts)
    _load_leases(table, body["leases"], texts, ids)
    for target, proxy_id, left in zip(*body["cooldowns"], strict=True):
        table.rest(texts[target], texts[proxy_id], table.now + left)
    for entry in body["released"]:
        table.remember_released(ids.read(entry))
    for uid, start, counter in body["gone"]:
        table.proxies.remember_gone(uid, (start, counter))
    return table


def _dump_proxies(table: LeaseTable, texts: _Places) -> list[list[Any]]:
    rows = []
    for proxy_id in sorted(table.proxies.by_id):
        proxy = table.proxies.by_id[proxy_id]
        view = proxy.view
        attributes = texts.of(json.dumps(view.attributes, ensure_ascii=False))
        rows.append(
            [
                texts.of(proxy_id),
                proxy.uid,
                *proxy.order,
                view.ip,
                view.port,
                attributes,
                texts.of(view.phase),
                int(view.healthy),
                view.latency_millis,
                view.max_leases,
                int(view.leasable),
                view.instance,
            ]
        )
    return rows


def _load_proxies(table: LeaseTable, rows: list[list[Any]], texts: list[str]) -> None:
    for place, uid, start, counter, ip, port, attributes, phase, healthy, latency, most, leasable, instance in rows:
        view = ProxyView(
            ip=ip,
            port=port,
            attributes=json.loads(texts[attributes]),
            phase=texts[phase],
            healthy=bool(healthy),
            latency_millis=latency,
            max_leases=most,
            leasable=bool(leasable),
            instance=instance,
        )
        table.proxies.add(Transition(texts[place], uid, (start, counter), view))


def _dump_leases(table: LeaseTable, texts: _Places, blob: bytearray) -> list[list[Any]]:
    columns: list[list[Any]] = [[], [], [], [], [], []]
    former = table.now
    for lease_id, lease in sorted(table.leases.items(), key=lambda item: (item[1].expires, item[0])):
        row = (
            _dump_id(lease_id, blob),
            texts.of(lease.proxy_id),
            texts.of(lease.target),
            lease.expires - former,
            lease.retained_until - lease.expires,
            int(lease.revoked),
        )
        for column, value in zip(columns, row, strict=True):
            column.append(value)
        former = lease.expires
    return columns


def _load_leases(table: LeaseTable, columns: list[list[Any]], texts: list[str], ids: "_IdReader") -> None:
    expires = table.now
    for entry, proxy_id, target, step, retained, revoked in zip(*columns, strict=True):
        expires += step
        lease = Lease(texts[proxy_id], texts[target], expires, expires + retained, bool(revoked))
        table.restore_lease(ids.read(entry), lease)


def _dump_cooldowns(table: LeaseTable, texts: _Places) -> list[list[int]]:
    rows = sorted(table.cooldowns.rows())
    return [
        [texts.of(target) for target, _, _ in rows],
        [texts.of(proxy_id) for _, proxy_id, _ in rows],
        [until - table.now for _, _, until in rows],
    ]


def _dump_id(lease_id: str, blob: bytearray) -> int | str:
    raw = lease_ids.to_bytes(lease_id)
    if raw is None:
        return lease_id
    blob.extend(raw)
    return 0


class _IdReader:
    """Reads ids back in the order they were written."""

    def __init__(self, blob: bytes) -> None:
        self._blob = blob
        self._position = 0

    def read(self, entry: int | str) -> str:
        if isinstance(entry, str):
            return entry
        raw = self._blob[self._position : self._position + lease_ids.RAW_BYTES]
        self._position += lease_ids.RAW_BYTES
        return lease_ids.from_bytes(raw)
