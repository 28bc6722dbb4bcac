"""The client for asyncio."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Mapping
from typing import Self, TypeVar, Unpack

import httpx

from egress_proxies_client._core import NOTHING, Core, Pause, Procedure, Step
from egress_proxies_client._held import Granted, HeldLease
from egress_proxies_client._http import reply_of, request_of
from egress_proxies_client._settings import settings_from
from egress_proxies_client._wire import Reply
from egress_proxies_client.records import LeaseRequest, Proxy, Result

Value = TypeVar("Value")


class AsyncClient:
    """Leases proxies on one event loop.

    Args:
        base_url: The lease API's URL; left out, ``EGRESS_PROXIES_URL`` is used.
        token: The bearer token; left out, ``EGRESS_PROXIES_TOKEN`` is used; "" sends none.
        timeout: Seconds that one request may take.
        retry_for: Seconds for which a request is sent again while the API is unavailable.
        verify: Trust for an https URL; left out, the system's, or ``SSL_CERT_FILE``.

    Raises:
        ValueError: There is no usable URL, or the token cannot stand in a header.
    """

    def __init__(
        self,
        base_url: str | None = None,
        *,
        token: str | None = None,
        timeout: float = 10.0,
        retry_for: float = 30.0,
        verify: ssl.SSLContext | None = None,
    ) -> None:
        settings = settings_from(base_url, token, timeout, retry_for)
        self._core = Core(settings)
        # trust_env: the way to the API must not lead through a proxy that the crawler's environment names.
        self._http = httpx.AsyncClient(
            base_url=settings.base_url,
            headers=settings.headers,
            timeout=timeout,
            verify=verify or ssl.create_default_context(),
            trust_env=False,
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections; leases that are held live on until their time ends."""
        await self._http.aclose()

    @contextlib.asynccontextmanager
    async def lease(
        self,
        *,
        renew: bool = True,
        transport_errors: tuple[type[BaseException], ...] = (),
        **request: Unpack[LeaseRequest],
    ) -> AsyncIterator["AsyncLease"]:
        """Hold a lease for the length of an ``async with`` block: leased, renewed by a task, released.

        Args:
            renew: Renew it before it ends.
            transport_errors: Exceptions of the block that are reported as ``transport_error``, such as
                ``(httpx.TransportError,)``; they are raised all the same.
            request: As ``LeaseRequest``.

        Raises:
            EgressProxiesError: There is no lease; the class says why.
        """
        lease = await self.acquire(**request)
        renewing = asyncio.create_task(self._run(self._core.keep_alive(lease))) if renew else None
        result: Result | None = None
        try:
            yield lease
        except transport_errors:
            result = "transport_error"
            raise
        finally:
            if renewing is not None:
                renewing.cancel()
                await asyncio.wait([renewing])
            await self._run(self._core.closing(lease, result))

    async def acquire(self, **request: Unpack[LeaseRequest]) -> "AsyncLease":
        """Lease a proxy; the caller renews and releases it.

        Args:
            request: As ``LeaseRequest``.

        Raises:
            NoMatch: No proxy can be leased now.
            SessionUnavailable: The proxy of the strict session cannot be leased now.
            EgressProxiesError: Another reason; the class says which.
        """
        return AsyncLease(self, await self._run(self._core.acquire(request)))

    async def get(self, lease_id: str) -> "AsyncLease":
        """Return the handle of a lease that is known by its id, such as one of another process.

        Raises:
            UnknownLease: No lease has this id.
        """
        return AsyncLease(self, await self._run(self._core.get(lease_id)))

    async def report(self, lease_id: str, result: Result, target: str = "") -> None:
        """Report by id how a site treated the proxy, as ``AsyncLease.report``."""
        await self._run(self._core.report(lease_id, result, target))

    async def release(self, lease_id: str) -> None:
        """End a lease by its id; an unknown or ended one is no error."""
        await self._run(self._core.release(lease_id))

    async def proxies(self, *, healthy: bool | None = None, attributes: Mapping[str, str] | None = None) -> list[Proxy]:
        """List the proxies with these attributes; ``healthy`` left out lists both."""
        return await self._run(self._core.proxies(healthy, attributes or {}))

    async def _run(self, procedure: Procedure[Value]) -> Value:
        try:
            step = next(procedure)
            while True:
                step = procedure.send(await self._carry_out(step))
        except StopIteration as done:
            value: Value = done.value
            return value

    async def _carry_out(self, step: Step) -> Reply:
        if isinstance(step, Pause):
            await asyncio.sleep(step.seconds)
            return NOTHING
        try:
            return reply_of(await self._http.send(request_of(self._http, step)))
        except httpx.RequestError as error:
            return Reply(failure=error)


class AsyncLease(HeldLease):
    """A lease of an ``AsyncClient``."""

    def __init__(self, client: AsyncClient, granted: Granted) -> None:
        super().__init__(granted, client._core.clock)
        self._client = client

    async def report(self, result: Result, target: str = "") -> None:
        """Report how a site treated the proxy; a lease that has just ended may be reported on too.

        Args:
            result: The API's word for it.
            target: The site; left out, the lease's own.

        Raises:
            UnknownLease: The lease ended too long ago.
        """
        await self._client.report(self.id, result, target)

    async def renew(self, ttl_seconds: int | None = None) -> None:
        """Let the lease live longer from now on; left out, as long as it was granted for.

        Raises:
            LeaseExpired: The lease has ended.
            LeaseRevoked: Its proxy was replaced or deleted.
            UnknownLease: The API does not know it.
        """
        await self._client._run(self._client._core.renew(self, ttl_seconds))

    async def release(self) -> None:
        """End the lease."""
        await self._client._run(self._client._core.let_go(self))
