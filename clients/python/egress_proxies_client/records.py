"""What the lease API takes and gives."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, TypedDict

Result = Literal["ok", "rate_limited", "banned", "transport_error", "geo_blocked", "captcha", "target_error"]
"""How a site treated the proxy."""

SessionMode = Literal["relaxed", "strict"]


class LeaseRequest(TypedDict, total=False):
    """The wish for a lease; everything may be left out.

    Attributes:
        selector: Attributes that the proxy must have.
        target: The site to crawl; proxies that rest from it are not leased.
        ttl_seconds: Life of the lease, and of each renewal; the API's default is 300.
        session: Name under which the same proxy is leased again, at most 128 bytes.
        session_mode: "strict" refuses any other proxy, "relaxed" (the default) takes one.
        wait: Seconds to wait for a proxy while the API says that waiting helps; 0 (the default) refuses at once.
        idempotency_key: Replaces the key that the client makes for each lease.
    """

    selector: Mapping[str, str]
    target: str
    ttl_seconds: int
    session: str
    session_mode: SessionMode
    wait: float
    idempotency_key: str


@dataclass(frozen=True, kw_only=True)
class Proxy:
    """A proxy as the API tells it.

    Attributes:
        id: ``namespace/name`` of the Proxy object.
        host: Address or name to connect to; "" while there is none.
        port: Port to connect to.
        attributes: The Proxy's attributes.
        phase: The Proxy's phase.
        healthy: Whether probes through it succeed.
        latency_millis: Latency of a recent probe, in milliseconds.
        active_leases: Leases that were running when the API answered.
        max_leases: Most leases at a time.
    """

    id: str
    host: str
    port: int
    attributes: Mapping[str, str]
    phase: str
    healthy: bool
    latency_millis: int
    active_leases: int
    max_leases: int

    @property
    def url(self) -> str:
        """The proxy's URL, with an IPv6 address in brackets."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"


@dataclass(frozen=True, kw_only=True)
class LeaseInfo:
    """A lease as the API tells it.

    Attributes:
        id: The lease's id.
        proxy: The leased proxy.
        expires_at: When the lease ends by the API's clock, in UTC.
        ttl_seconds: What it was granted for.
        seconds_left: From the answer to ``expires_at``, by the API's clock alone; at most ``ttl_seconds``.
    """

    id: str
    proxy: Proxy
    expires_at: datetime
    ttl_seconds: int
    seconds_left: float
