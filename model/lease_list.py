"""What the broker's queries answer: the list of proxies and the numbers for the metrics."""

import base64
import json
import zlib
from collections import Counter
from typing import NamedTuple

from model.lease_operations import ProxyView
from model.leases import LeaseTable


class ListedProxy(NamedTuple):
    """One proxy of the list."""

    id: str
    view: ProxyView
    active_leases: int


class LeasesOn(NamedTuple):
    """Running leases on one instance of a proxy."""

    uid: str
    instance: str
    leases: int


class LeaseSummary(NamedTuple):
    """Numbers for the metrics.

    Attributes:
        phases: Proxies by ``status.phase``, those being deleted included.
    """

    primed: bool
    active_leases: int
    cooldowns: int
    phases: dict[str, int]


def encode_list(table: LeaseTable, now: int) -> str:
    """Return every proxy that is not being deleted, in order of id, as text; changes nothing.

    Args:
        table: The table.
        now: The asker's time in Unix milliseconds: a workflow's clock stands still between tasks.
    """
    rows = [[proxy.id, proxy.view.told, active] for proxy, active in table.views(now)]
    return base64.b64encode(zlib.compress(json.dumps(rows, separators=(",", ":")).encode(), 1)).decode()


def decode_list(text: str) -> list[ListedProxy]:
    """Read what ``encode_list`` wrote."""
    rows = json.loads(zlib.decompress(base64.b64decode(text)))
    return [ListedProxy(proxy_id, ProxyView(*view), active) for proxy_id, view, active in rows]


def encode_doubted(table: LeaseTable) -> str:
    """Return id and uid of every proxy in doubt as text; changes nothing."""
    proxies = table.proxies.by_id
    return json.dumps([[proxy_id, proxies[proxy_id].uid] for proxy_id in table.doubts.proxy_ids()])


def decode_doubted(text: str) -> list[tuple[str, str]]:
    """Read what ``encode_doubted`` wrote."""
    return [(proxy_id, uid) for proxy_id, uid in json.loads(text)]


def encode_leases_on(table: LeaseTable, now: int, proxy_ids: list[str]) -> str:
    """Return the running leases at ``now`` of those of these proxies that are known; changes nothing."""
    known = [(one, table.proxies.by_id[one]) for one in proxy_ids if one in table.proxies.by_id]
    rows = [[one, proxy.uid, proxy.view.instance, table.active_on(one, now)] for one, proxy in known]
    return json.dumps({"primed": table.primed, "proxies": rows}, separators=(",", ":"))


def decode_leases_on(text: str) -> dict[str, LeasesOn] | None:
    """Read what ``encode_leases_on`` wrote, by proxy id; None from a broker that does not know the proxies yet."""
    body = json.loads(text)
    return {proxy_id: LeasesOn(*row) for proxy_id, *row in body["proxies"]} if body["primed"] else None


def encode_summary(table: LeaseTable, now: int) -> str:
    """Return the numbers at ``now`` as text; changes nothing."""
    phases = Counter(proxy.view.phase for proxy in table.proxies.by_id.values())
    summary = LeaseSummary(table.primed, table.active_leases(now), table.cooldowns.running(now), dict(phases))
    return json.dumps(summary)


def decode_summary(text: str) -> LeaseSummary:
    """Read what ``encode_summary`` wrote."""
    return LeaseSummary(*json.loads(text))
