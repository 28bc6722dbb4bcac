"""What a client does, step by step, without doing any of it.

A procedure is a generator: it yields a ``Call`` to be sent or a ``Pause`` to be waited out, is sent the ``Reply``
(``NOTHING`` after a pause), and returns its result. The transports only carry the steps out, one in threads and one on
an event loop, so that every rule exists once.
"""

import logging
import math
import random
import time
import uuid
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from typing import TypeVar

from egress_proxies_client import _wire
from egress_proxies_client._held import Granted, HeldLease
from egress_proxies_client._settings import Settings
from egress_proxies_client._wire import Call, Reply
from egress_proxies_client.errors import (
    EgressProxiesError,
    LeaseExpired,
    LeaseRevoked,
    NoMatch,
    SessionUnavailable,
    Unavailable,
    UnknownLease,
)
from egress_proxies_client.records import LeaseRequest, Proxy, Result

logger = logging.getLogger("egress_proxies_client")

Value = TypeVar("Value")


@dataclass(frozen=True)
class Pause:
    """A wait."""

    seconds: float


Step = Call | Pause
Procedure = Generator[Step, Reply, Value]

NOTHING = Reply()
"""What a procedure is sent after a pause."""

_FIRST_PAUSE_SECONDS = 0.2
_LONGEST_PAUSE_SECONDS = 5.0
_SHORTEST_RENEWAL_PAUSE_SECONDS = 0.2
_JITTER = 0.25
"""Share by which pauses are longer at random, so that clients that were refused together do not come back together."""
_LONGEST_JITTER_SECONDS = 2.0


class Core:
    """The procedures of one client.

    Args:
        settings: The client's settings.
        clock: Monotonic seconds.
        jitter: Returns a number from 0 to 1.
    """

    def __init__(
        self,
        settings: Settings,
        clock: Callable[[], float] = time.monotonic,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self.clock = clock
        self._settings = settings
        self._jitter = jitter

    def acquire(self, wish: LeaseRequest) -> Procedure[Granted]:
        """Lease a proxy; the same Idempotency-Key in every try, so that a lost answer costs no second lease."""
        own_key = "idempotency_key" not in wish
        key = str(uuid.uuid4()) if own_key else wish["idempotency_key"]
        give_up = self.clock() + wish.get("wait", 0.0)
        while True:
            try:
                reply, asked = yield from self._ask(_wire.acquire_call(wish, key))
                return Granted(_wire.lease_of(reply), asked)
            except LeaseExpired:
                # What an earlier try was granted has ended while its answer was lost.
                if not own_key:
                    raise
                key = str(uuid.uuid4())
            except (NoMatch, SessionUnavailable) as refusal:
                left = give_up - self.clock()
                if refusal.retry_after is None or left <= 0:
                    raise
                # The API says when time alone frees a proxy. Its holder may release it earlier, so a wait that would be
                # too long ends with a last try.
                yield Pause(min(self._longer(refusal.retry_after), left))

    def renew(self, lease: HeldLease, ttl_seconds: int | None = None) -> Procedure[None]:
        """Let a lease live longer; a lease that has ended learns so."""
        try:
            call = _wire.renew_call(lease.id, ttl_seconds or lease.ttl_seconds)
            reply, asked = yield from self._ask(call, give_up=lease.expires_monotonic)
        except (LeaseExpired, LeaseRevoked, UnknownLease) as error:
            lease.end(error)
            raise
        lease.take_over(Granted(_wire.lease_of(reply), asked))

    def keep_alive(self, lease: HeldLease) -> Procedure[None]:
        """Renew a lease each time half of its life is over, until it ends."""
        while lease.ended is None:
            yield Pause(max(lease.seconds_left / 2, _SHORTEST_RENEWAL_PAUSE_SECONDS))
            try:
                if lease.ended is None:
                    yield from self.renew(lease)
            except (LeaseExpired, LeaseRevoked, UnknownLease) as error:
                if not lease.released:
                    logger.warning("lease %s has ended: %s", lease.id, error)
            except EgressProxiesError as error:
                logger.warning("lease %s could not be renewed yet: %s", lease.id, error)

    def report(self, lease_id: str, result: Result, target: str) -> Procedure[None]:
        """Report how a site treated the proxy."""
        yield from self._ask(_wire.report_call(lease_id, result, target))

    def release(self, lease_id: str) -> Procedure[None]:
        """End a lease."""
        yield from self._ask(_wire.release_call(lease_id))

    def get(self, lease_id: str) -> Procedure[Granted]:
        """Read a lease."""
        reply, asked = yield from self._ask(_wire.get_call(lease_id))
        return Granted(_wire.lease_of(reply), asked)

    def proxies(self, healthy: bool | None, attributes: Mapping[str, str]) -> Procedure[list[Proxy]]:
        """List proxies, page by page."""
        reply, _ = yield from self._ask(_wire.list_call(healthy, attributes, ""))
        proxies, page = _wire.proxies_of(reply)
        while page:
            reply, _ = yield from self._ask(_wire.list_call(healthy, attributes, page))
            more, page = _wire.proxies_of(reply)
            proxies += more
        return proxies

    def let_go(self, lease: HeldLease) -> Procedure[None]:
        """End a lease and forbid its further use."""
        lease.end(LeaseExpired(f"lease {lease.id} was released"), released=True)
        yield from self.release(lease.id)

    def closing(self, lease: HeldLease, result: Result | None) -> Procedure[None]:
        """Report, where there is something to report, and release; failures are logged, for the work is done."""
        try:
            if result is not None:
                yield from self.report(lease.id, result, "")
        except EgressProxiesError as error:
            logger.warning("lease %s could not be reported on: %s", lease.id, error)
        try:
            if not lease.released:
                yield from self.let_go(lease)
        except EgressProxiesError as error:
            logger.warning("lease %s could not be released and ends by its time: %s", lease.id, error)

    def _ask(self, call: Call, give_up: float = math.inf) -> Procedure[tuple[Reply, float]]:
        """Send until the API is available; return the answer and when it was asked for."""
        give_up = min(give_up, self.clock() + self._settings.retry_for)
        attempt = 0
        while True:
            asked = self.clock()
            reply = yield call
            try:
                _wire.check(reply)
            except Unavailable as error:
                pause = self._longer(error.retry_after or _backoff(attempt))
                if self.clock() + pause > give_up:
                    raise
                yield Pause(pause)
                attempt += 1
            else:
                return reply, asked

    def _longer(self, seconds: float) -> float:
        return seconds + self._jitter() * min(seconds * _JITTER, _LONGEST_JITTER_SECONDS)


def _backoff(attempt: int) -> float:
    return min(_FIRST_PAUSE_SECONDS * 2.0 ** min(attempt, 10), _LONGEST_PAUSE_SECONDS)
