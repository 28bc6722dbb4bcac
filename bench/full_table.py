"""A lease table as full as the broker is meant for."""

import random
import uuid

from model import lease_ids
from model.lease_answers import Granted, Word
from model.lease_operations import Acquire, Primed, ProxyView, Transition
from model.leases import LeaseTable

_RETAIN_MILLIS = 900_000
_SITES = 500


def full_table(proxies: int, leases: int, now: int) -> LeaseTable:
    """Return a table of so many proxies and of leases with a key and a session each, none of which ends for an hour.

    Args:
        proxies: Ready ones, with UUIDs as in a cluster and a few different attributes.
        leases: Spread over them.
        now: Unix milliseconds.
    """
    source = random.Random(7)
    table = LeaseTable()
    table.advance(now)
    table.apply(Primed())
    for number in range(proxies):
        change = Transition(f"production/egress-{number:05}", _uuid(source), (now, number), _view(source))
        if table.apply(change) is not Word.DONE:
            raise ValueError(f"the table does not hold {proxies} proxies")
    for _ in range(leases):
        lease_id = lease_ids.from_bytes(source.randbytes(lease_ids.RAW_BYTES))
        site = f"site-{source.randrange(_SITES)}.example.com"
        ttl = 1000 * source.randrange(3600, 7200)
        key, session = source.randbytes(8).hex(), source.randbytes(8).hex()
        if not isinstance(table.apply(Acquire(lease_id, {}, site, ttl, _RETAIN_MILLIS, key, session)), Granted):
            raise ValueError(f"the table does not hold {leases} leases")
    return table


def _view(source: random.Random) -> ProxyView:
    return ProxyView(
        ip=".".join(str(source.randrange(256)) for _ in range(4)),
        port=3128,
        attributes={"geo": source.choice(["eu", "us", "ap"]), "asn": str(source.randrange(50))},
        phase="Ready",
        healthy=True,
        latency_millis=source.randrange(1000),
        max_leases=20,
        leasable=True,
        instance=_uuid(source),
    )


def _uuid(source: random.Random) -> str:
    return str(uuid.UUID(bytes=source.randbytes(16)))
