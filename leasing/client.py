"""The lease broker as its users see it."""

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypedDict, Unpack

from temporalio.client import Client, WorkflowQueryFailedError, WorkflowQueryRejectedError
from temporalio.service import RPCError

from leasing.broker_workflow import BrokerWorkflow
from leasing.drain_counts import DrainCounts
from leasing.give_back import GiveBacks
from leasing.group_commit import GroupCommit, PendingOperation
from leasing.single_flight import SingleFlight
from model import lease_broker, lease_list
from model.errors import UnavailableError
from model.lease_answers import Answer, Granted, NoMatch, SessionUnavailable, Stale, Word
from model.lease_broker import BrokerSettings
from model.lease_list import LeasesOn, LeaseSummary, ListedProxy
from model.lease_operations import (
    Acquire,
    GiveBack,
    Gone,
    Latencies,
    Latency,
    Look,
    Operation,
    Order,
    Primed,
    Probe,
    Probes,
    Release,
    Renew,
    Report,
    Transition,
)

logger = logging.getLogger(__name__)

REQUEST_TIMEOUT = 3.0
"""Seconds a caller of the API waits at most."""
LIST_RETENTION = 30.0
"""Seconds the last list stands in for one that cannot be had."""
_QUERY_TIMEOUT = 2.5
_LATE_GRANT = 60.0
"""Seconds after which the server has surely dropped a batch that nobody waits for any more."""


@dataclass(frozen=True)
class ProxyList:
    """The proxies, in order of id, as they were at ``asked_at`` (monotonic seconds)."""

    proxies: Sequence[ListedProxy]
    asked_at: float

    @property
    def age(self) -> float:
        """Seconds since it was asked for."""
        return time.monotonic() - self.asked_at


class AcquireOptions(TypedDict, total=False):
    """What few acquires use; as in ``model.lease_operations.Acquire``."""

    body: str
    session: str
    strict: bool


Refusal = NoMatch | SessionUnavailable | Word
"""Why there is no lease; the words are ``LEASE_ENDED`` and ``KEY_REUSED``, for an acquire with a key alone."""


class BrokerFullError(UnavailableError):
    """The broker's budget is used up. Retried like any other; it helps when leases have ended or proxies are gone."""


class BrokerClient:
    """Leases, proxies and cooldowns, kept by the broker's workflow. One per process and event loop.

    Every method raises ``UnavailableError`` when the broker has not answered within ``timeout`` seconds (default: 3),
    when it does not know the proxies yet, or when its budget is used up; what was asked may have been done then.
    """

    def __init__(
        self,
        client: Client,
        installation: str,
        *,
        timeout: float = REQUEST_TIMEOUT,
        settings: BrokerSettings | None = None,
    ) -> None:
        self._workflow = BrokerWorkflow(client, installation, settings)
        self._timeout = timeout
        self._commit = GroupCommit(self._workflow.update)
        self._give_backs = GiveBacks(self._give_back)
        self._lists: SingleFlight[ProxyList] = SingleFlight(self._fetch_list)
        self._last_list: ProxyList | None = None
        self._drains = DrainCounts(self._fetch_leases_on)

    async def acquire(
        self,
        lease_id: str,
        selector: Mapping[str, str],
        target: str,
        ttl_millis: int,
        cooldown_millis: int,
        **options: Unpack[AcquireOptions],
    ) -> Granted | Refusal:
        """Take a lease under an id of the caller's choice (``model.lease_ids``, ``model.lease_keys``).

        A lease that may have been granted without the caller learning of it is given back in the background, unless it
        has a key: whoever has the key comes back for it.

        Args:
            lease_id: New and random, or made from an idempotency key.
            selector: Attributes the proxy must have.
            target: The site it is for, or "".
            ttl_millis: How long it lasts.
            cooldown_millis: How long past its end it can be reported on.
            options: Key and session.
        """
        operation = Acquire(lease_id, dict(selector), target, ttl_millis, cooldown_millis, **options)
        pending = self._submit(operation, self._timeout)
        try:
            answer = await pending.answer
        except BaseException:
            if pending.sent and not operation.body:
                until = asyncio.get_running_loop().time() + ttl_millis / 1000 + _LATE_GRANT
                self._give_backs.add(lease_id, until)
            raise
        if isinstance(answer, Granted | NoMatch | SessionUnavailable):
            return answer
        if operation.body and (answer is Word.LEASE_ENDED or answer is Word.KEY_REUSED):
            return answer
        if answer is Word.LEASE_ENDED:
            raise UnavailableError("the proxy of the lease was replaced while it was granted")
        raise _unexpected(answer)

    async def renew(self, lease_id: str, ttl_millis: int) -> Granted | Word:
        """Let a lease end ``ttl_millis`` from now; a word is ``UNKNOWN_LEASE``, ``LEASE_ENDED`` or ``REVOKED``."""
        answer = await self._ask(Renew(lease_id, ttl_millis))
        if isinstance(answer, Granted) or answer in (Word.UNKNOWN_LEASE, Word.LEASE_ENDED, Word.REVOKED):
            return answer
        raise _unexpected(answer)

    async def look(self, lease_id: str) -> Granted | None:
        """Return a running lease; None for any other."""
        answer = await self._ask(Look(lease_id))
        return answer if isinstance(answer, Granted) else None

    async def release(self, lease_id: str) -> None:
        """End a lease; an unknown one is fine."""
        await self._ask(Release(lease_id))

    async def report(self, lease_id: str, result: str, target: str, cooldown_millis: int) -> bool:
        """Say how a target treated the lease's proxy; False when the lease is unknown.

        Args:
            lease_id: Running, or ended less than one cooldown ago.
            result: One of ``model.lease_operations.RESULTS``.
            target: "" for the lease's own.
            cooldown_millis: How long the proxy rests where the result says so.
        """
        answer = await self._ask(Report(lease_id, result, target, cooldown_millis))
        return answer is not Word.UNKNOWN_LEASE

    async def tell(self, operation: Transition | Gone, timeout: float | None = None) -> Order | None:
        """Tell a proxy's transition; returns the newer order the broker has, or None when it took this one."""
        answer = await self._ask(operation, timeout)
        return answer.order if isinstance(answer, Stale) else None

    async def tell_latencies(self, rows: Sequence[Latency], timeout: float | None = None) -> None:
        """Tell the latencies of many proxies."""
        await self._ask(Latencies(list(rows)), timeout)

    async def tell_probes(self, rows: Sequence[Probe], timeout: float | None = None) -> None:
        """Tell what probes found of proxies in doubt."""
        await self._ask(Probes(list(rows)), timeout)

    async def doubted_proxies(self) -> list[tuple[str, str]]:
        """Return id and uid of the proxies that wait for a probe."""
        return lease_list.decode_doubted(await self._query(lease_broker.QUERY_DOUBTED))

    async def leases_on(self, proxy_id: str, uid: str, instance: str) -> int | None:
        """Return how many leases run on one instance of a proxy; None while the broker does not know the proxies yet.

        Those who ask at the same time share one query.
        """
        return await self._drains.ask(proxy_id, uid, instance)

    async def uids(self, proxy_ids: Sequence[str]) -> dict[str, str]:
        """Return the uid of each of these proxies that the broker knows; none while it knows no proxies yet."""
        known = await self._fetch_leases_on(list(proxy_ids)) or {}
        return {proxy_id: found.uid for proxy_id, found in known.items()}

    async def tell_primed(self, timeout: float | None = None) -> None:
        """Say that every Proxy there is has been told."""
        await self._ask(Primed(), timeout)

    async def list_proxies(self) -> ProxyList:
        """Return a list that was asked for after this call, or the last one where none can be had (30 s at most)."""
        try:
            async with asyncio.timeout(self._timeout):
                return await self._lists.ask()
        except (TimeoutError, UnavailableError):
            if self._last_list is not None and self._last_list.age <= LIST_RETENTION:
                return self._last_list
            raise UnavailableError("the lease broker did not answer in time") from None

    async def summary(self) -> LeaseSummary:
        """Return the numbers for the metrics."""
        return lease_list.decode_summary(await self._query(lease_broker.QUERY_SUMMARY))

    async def close(self, timeout: float = 5.0) -> None:
        """Wait for what is on its way, at most so many seconds. Nothing may be asked afterwards."""
        deadline = asyncio.get_running_loop().time() + timeout
        await self._give_backs.drain(timeout)
        await self._commit.drain(max(0.0, deadline - asyncio.get_running_loop().time()))

    def _submit(self, operation: Operation, timeout: float) -> PendingOperation:
        return self._commit.submit(operation, asyncio.get_running_loop().time() + timeout)

    async def _ask(self, operation: Operation, timeout: float | None = None) -> Answer:
        # Leaving cancels only this operation's future; the batch it travels in goes on.
        answer = await self._submit(operation, self._timeout if timeout is None else timeout).answer
        if answer in (Word.UNPRIMED, Word.FULL):
            raise _unexpected(answer)
        return answer

    async def _give_back(self, lease_id: str) -> None:
        await self._ask(GiveBack(lease_id), self._timeout)

    async def _fetch_leases_on(self, proxy_ids: list[str]) -> dict[str, LeasesOn] | None:
        return lease_list.decode_leases_on(await self._query(lease_broker.QUERY_LEASES_ON, proxy_ids))

    async def _fetch_list(self) -> ProxyList:
        asked_at = time.monotonic()
        text = await self._query(lease_broker.QUERY_LIST)
        self._last_list = ProxyList(lease_list.decode_list(text), asked_at)
        return self._last_list

    async def _query(self, name: str, *arguments: Any) -> str:
        try:
            async with asyncio.timeout(_QUERY_TIMEOUT):
                return await self._workflow.query(name, [time.time_ns() // 1_000_000, *arguments], _QUERY_TIMEOUT)
        except (RPCError, TimeoutError, WorkflowQueryFailedError, WorkflowQueryRejectedError) as error:
            logger.warning("the lease broker did not answer a query: %s", type(error).__name__)
            raise UnavailableError("the lease broker did not answer in time") from None


def _unexpected(answer: Answer) -> UnavailableError:
    if answer is Word.UNPRIMED:
        return UnavailableError("the lease broker does not know the proxies yet")
    if answer is Word.FULL:
        return BrokerFullError("the lease broker's budget is used up")
    return UnavailableError(f"the lease broker answered {answer!r}")
