"""The client for threads."""

import contextlib
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Self, TypeVar, Unpack

import httpx

from egress_proxies_client._core import NOTHING, Core, Pause, Procedure, Step
from egress_proxies_client._held import Granted, HeldLease
from egress_proxies_client._http import reply_of, request_of
from egress_proxies_client._settings import settings_from
from egress_proxies_client._wire import Reply
from egress_proxies_client.records import LeaseRequest, Proxy, Result

Value = TypeVar("Value")


class Client:
    """Leases proxies; may be shared by threads.

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
        self._http = httpx.Client(
            base_url=settings.base_url,
            headers=settings.headers,
            timeout=timeout,
            verify=verify or ssl.create_default_context(),
            trust_env=False,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections; leases that are held live on until their time ends."""
        self._http.close()

    @contextlib.contextmanager
    def lease(
        self,
        *,
        renew: bool = True,
        transport_errors: tuple[type[BaseException], ...] = (),
        **request: Unpack[LeaseRequest],
    ) -> Iterator["Lease"]:
        """Hold a lease for the length of a ``with`` block: leased, renewed in a thread, released.

        Args:
            renew: Renew it before it ends.
            transport_errors: Exceptions of the block that are reported as ``transport_error``, such as
                ``(httpx.TransportError,)``; they are raised all the same.
            request: As ``LeaseRequest``.

        Raises:
            EgressProxiesError: There is no lease; the class says why.
        """
        lease = self.acquire(**request)
        stop = threading.Event()
        renewing = threading.Thread(target=self._keep_alive, args=(lease, stop), daemon=True)
        if renew:
            renewing.start()
        result: Result | None = None
        try:
            yield lease
        except transport_errors:
            result = "transport_error"
            raise
        finally:
            stop.set()
            self._run(self._core.closing(lease, result))
            if renew:
                renewing.join()

    def acquire(self, **request: Unpack[LeaseRequest]) -> "Lease":
        """Lease a proxy; the caller renews and releases it.

        Args:
            request: As ``LeaseRequest``.

        Raises:
            NoMatch: No proxy can be leased now.
            SessionUnavailable: The proxy of the strict session cannot be leased now.
            EgressProxiesError: Another reason; the class says which.
        """
        return Lease(self, self._run(self._core.acquire(request)))

    def get(self, lease_id: str) -> "Lease":
        """Return the handle of a lease that is known by its id, such as one of another process.

        Raises:
            UnknownLease: No lease has this id.
        """
        return Lease(self, self._run(self._core.get(lease_id)))

    def report(self, lease_id: str, result: Result, target: str = "") -> None:
        """Report by id how a site treated the proxy, as ``Lease.report``."""
        self._run(self._core.report(lease_id, result, target))

    def release(self, lease_id: str) -> None:
        """End a lease by its id; an unknown or ended one is no error."""
        self._run(self._core.release(lease_id))

    def proxies(self, *, healthy: bool | None = None, attributes: Mapping[str, str] | None = None) -> list[Proxy]:
        """List the proxies with these attributes; ``healthy`` left out lists both."""
        return self._run(self._core.proxies(healthy, attributes or {}))

    def _run(self, procedure: Procedure[Value], pause: Callable[[float], object] = time.sleep) -> Value:
        try:
            step = next(procedure)
            while True:
                step = procedure.send(self._carry_out(step, pause))
        except StopIteration as done:
            value: Value = done.value
            return value

    def _carry_out(self, step: Step, pause: Callable[[float], object]) -> Reply:
        if isinstance(step, Pause):
            pause(step.seconds)
            return NOTHING
        try:
            return reply_of(self._http.send(request_of(self._http, step)))
        except httpx.RequestError as error:
            return Reply(failure=error)

    def _keep_alive(self, lease: "Lease", stop: threading.Event) -> None:
        def pause(seconds: float) -> None:
            if stop.wait(seconds):
                raise _Stopped

        with contextlib.suppress(_Stopped):
            self._run(self._core.keep_alive(lease), pause)


class Lease(HeldLease):
    """A lease of a ``Client``; may be shared by threads."""

    def __init__(self, client: Client, granted: Granted) -> None:
        super().__init__(granted, client._core.clock)
        self._client = client

    def report(self, result: Result, target: str = "") -> None:
        """Report how a site treated the proxy; a lease that has just ended may be reported on too.

        Args:
            result: The API's word for it.
            target: The site; left out, the lease's own.

        Raises:
            UnknownLease: The lease ended too long ago.
        """
        self._client.report(self.id, result, target)

    def renew(self, ttl_seconds: int | None = None) -> None:
        """Let the lease live longer from now on; left out, as long as it was granted for.

        Raises:
            LeaseExpired: The lease has ended.
            LeaseRevoked: Its proxy was replaced or deleted.
            UnknownLease: The API does not know it.
        """
        self._client._run(self._client._core.renew(self, ttl_seconds))

    def release(self) -> None:
        """End the lease."""
        self._client._run(self._client._core.let_go(self))


class _Stopped(Exception):  # noqa: N818 (no error: the block is over)
    pass
