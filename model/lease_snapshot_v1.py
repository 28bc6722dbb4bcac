"""Reads the first format of snapshots: zlib over one line of JSON, a newline, and raw bytes.

A run that an earlier release began is replayed from such a snapshot.
"""

import json
import zlib
from typing import Any

from model import lease_ids, lease_snapshot_sessions
from model.lease_blob import BlobReader
from model.lease_book import Lease
from model.lease_keys import HASH_BYTES
from model.lease_operations import ProxyView, Transition
from model.lease_snapshot_words import hash_words
from model.leases import LeaseTable


def load(snapshot: bytes) -> LeaseTable:
    """Return the table of a snapshot."""
    text, _, raw = zlib.decompress(snapshot).partition(b"\n")
    body = json.loads(text.decode("utf-8", "surrogatepass"))
    texts, blob = body["texts"], BlobReader(raw)
    table = LeaseTable()
    table.now, table.primed = body["now"], body["primed"]
    # The earliest of these snapshots know no drains.
    drains = {place: table.now + left for place, left in body.get("drains", [])}
    for row in body["proxies"]:
        table.proxies.add(_transition(row, drains, texts, blob))
    leases = _leases(table.now, body["leases"], texts, blob)
    hashes = hash_words(blob.take(HASH_BYTES * lease_snapshot_sessions.count(body["sessions"])))
    sessions = lease_snapshot_sessions.read(body["sessions"], list(leases.values()), hashes)
    table.restore_leases(leases)
    lease_snapshot_sessions.load(table, body["sessions"], sessions, texts)
    for target, proxy_id, left in zip(*body["cooldowns"], strict=True):
        table.rest(texts[target], texts[proxy_id], table.now + left)
    for proxy_id, left in body["doubts"]:
        table.restore_doubt(texts[proxy_id], left)
    for entry in body["released"]:
        table.leases.remember_released(_id(entry, blob))
    for uid, start, counter in body["gone"]:
        table.proxies.remember_gone(uid, (start, counter))
    return table


def _transition(row: list[Any], drains: dict[int, int], texts: list[str], blob: BlobReader) -> Transition:
    place, uid, start, counter, ip, port, attributes, phase, healthy, latency, most, leasable, instance = row
    uid = _uuid(uid, blob)
    view = ProxyView(
        ip=ip,
        port=port,
        attributes=json.loads(texts[attributes]),
        phase=texts[phase],
        healthy=bool(healthy),
        latency_millis=latency,
        max_leases=most,
        leasable=bool(leasable),
        instance=_uuid(instance, blob),
        drain_ends_at=drains.get(place, 0),
    )
    return Transition(texts[place], uid, (start, counter), view)


def _leases(now: int, columns: list[list[Any]], texts: list[str], blob: BlobReader) -> dict[str, Lease]:
    leases = {}
    expires = now
    for entry, proxy_id, target, step, ttl, retain, revoked, released, keyed in zip(*columns, strict=True):
        expires += step
        lease_id = _id(entry, blob)
        leases[lease_id] = Lease(
            texts[proxy_id],
            texts[target],
            expires,
            ttl,
            retain,
            body=blob.take(HASH_BYTES).hex() if keyed else "",
            revoked=bool(revoked),
            released=bool(released),
        )
    return leases


def _id(entry: int | str, blob: BlobReader) -> str:
    return entry if isinstance(entry, str) else lease_ids.from_bytes(blob.take(lease_ids.RAW_BYTES))


def _uuid(entry: int | str, blob: BlobReader) -> str:
    return entry if isinstance(entry, str) else lease_ids.uuid_from_bytes(blob.take(lease_ids.RAW_BYTES))
