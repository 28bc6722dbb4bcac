"""A lease as its holder has it: what was granted, and whether it can still be used."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from egress_proxies_client.errors import EgressProxiesError, LeaseExpired
from egress_proxies_client.records import LeaseInfo, Proxy


@dataclass(frozen=True)
class Granted:
    """What an answer granted.

    Attributes:
        info: The lease as the API told it.
        asked: When it was asked for, in monotonic seconds: the answer cannot be older.
    """

    info: LeaseInfo
    asked: float


class HeldLease:
    """The state of one lease; does no I/O.

    Args:
        granted: What the API granted.
        clock: Monotonic seconds.

    Attributes:
        info: What the API said last.
        expires_monotonic: When the lease ends, in monotonic seconds.
        released: Whether its holder gave it back.
    """

    def __init__(self, granted: Granted, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.released = False
        self._end: EgressProxiesError | None = None
        self.take_over(granted)

    def take_over(self, granted: Granted) -> None:
        """Hold what the latest answer granted."""
        self.info = granted.info
        self.expires_monotonic = granted.asked + granted.info.seconds_left

    def end(self, error: EgressProxiesError, *, released: bool = False) -> None:
        """Remember why the lease is over; the first reason counts."""
        self._end = self._end or error
        self.released = self.released or released

    @property
    def id(self) -> str:
        """The lease's id."""
        return self.info.id

    @property
    def proxy(self) -> Proxy:
        """The leased proxy."""
        return self.info.proxy

    @property
    def expires_at(self) -> datetime:
        """When the lease ends by the API's clock, in UTC."""
        return self.info.expires_at

    @property
    def ttl_seconds(self) -> int:
        """What the lease was granted for."""
        return self.info.ttl_seconds

    @property
    def seconds_left(self) -> float:
        """Until the lease ends, in seconds; 0 when it has ended."""
        return 0.0 if self._end is not None else max(self.expires_monotonic - self._clock(), 0.0)

    @property
    def ended(self) -> EgressProxiesError | None:
        """Why the lease can no longer be used: revoked, expired or released; None while it can."""
        if self._end is None and self._clock() >= self.expires_monotonic:
            return LeaseExpired(f"lease {self.id} has expired")
        return self._end

    @property
    def proxy_url(self) -> str:
        """The proxy's URL for httpx, requests, aiohttp, curl and whatever else takes one.

        Raises:
            LeaseExpired: The lease has expired or was released.
            LeaseRevoked: Its proxy was replaced or deleted.
            UnknownLease: The API does not know the lease any more.
        """
        ended = self.ended
        if ended is not None:
            # A fresh one for each caller: an exception that is raised twice collects the tracebacks of both.
            raise type(ended)(str(ended), status=ended.status, code=ended.code)
        return self.proxy.url
