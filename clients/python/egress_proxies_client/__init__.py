"""Leases egress proxies over the lease API: ``Client`` for threads, ``AsyncClient`` for asyncio.

Importing this package does not import Scrapy; the downloader middleware is in ``egress_proxies_client.scrapy``.
"""

from egress_proxies_client._async import AsyncClient, AsyncLease
from egress_proxies_client._sync import Client, Lease
from egress_proxies_client.errors import (
    EgressProxiesError,
    IdempotencyKeyReused,
    InvalidRequest,
    LeaseExpired,
    LeaseRevoked,
    NoMatch,
    SessionUnavailable,
    Unauthorized,
    Unavailable,
    UnexpectedAnswer,
    UnknownLease,
)
from egress_proxies_client.records import LeaseRequest, Proxy, Result

__all__ = [
    "AsyncClient",
    "AsyncLease",
    "Client",
    "EgressProxiesError",
    "IdempotencyKeyReused",
    "InvalidRequest",
    "Lease",
    "LeaseExpired",
    "LeaseRequest",
    "LeaseRevoked",
    "NoMatch",
    "Proxy",
    "Result",
    "SessionUnavailable",
    "Unauthorized",
    "Unavailable",
    "UnexpectedAnswer",
    "UnknownLease",
]
