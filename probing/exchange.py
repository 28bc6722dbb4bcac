"""One connection with one request: to a proxy that passes it on, or straight to the target."""

import asyncio
import http
import socket
import ssl
from dataclasses import dataclass
from enum import Enum

from probing.exit_ip import read_exit_ip
from probing.faults import LOCAL_ERRORS, InvalidResponseError, ProbeFaultError, Reason, describe
from probing.resolver import Resolver
from probing.response import Head, read_head, status_text
from probing.streams import Stream, TcpStream, TlsStream, connect
from probing.target import ProbeTarget, host_and_port

USER_AGENT = "egress-proxies-health-check"

_NO_CONNECT = frozenset({http.HTTPStatus.NOT_IMPLEMENTED, http.HTTPStatus.HTTP_VERSION_NOT_SUPPORTED})
"""The server errors that speak of the CONNECT method itself and not of reaching the target."""


class _Stage(Enum):
    """What an exchange is waiting for; its value is the reason when the deadline passes there."""

    LOOK_UP = (Reason.HOST_UNRESOLVED, "its name did not resolve")
    CONNECT = (Reason.CONNECT_TIMEOUT, "no TCP connection")
    TUNNEL = (Reason.PROBE_TIMEOUT, "connected, but no answer to CONNECT")
    TLS = (Reason.PROBE_TIMEOUT, "connected, but no TLS handshake")
    REQUEST = (Reason.PROBE_TIMEOUT, "connected, but no complete response")


@dataclass(frozen=True, kw_only=True)
class Answer:
    """The target's answer.

    Attributes:
        latency_seconds: From the start of the connection to the end of the response's head.
    """

    status: int
    latency_seconds: float
    exit_ip: str = ""


class Exchange:
    """One exchange under one total deadline.

    Args:
        host: Whom to connect to.
        port: Its port.
        target: What to ask for.
        through_proxy: Whether that is a proxy; otherwise it is the target itself.
        resolver: For the host.
        ssl_context: Trust for the target.
        timeout_seconds: For everything together.
    """

    def __init__(
        self,
        *,
        host: str,
        port: int,
        target: ProbeTarget,
        through_proxy: bool,
        resolver: Resolver,
        ssl_context: ssl.SSLContext,
        timeout_seconds: float,
    ) -> None:
        self._host = host
        self._port = port
        self._target = target
        self._through_proxy = through_proxy
        self._resolver = resolver
        self._ssl_context = ssl_context
        self._timeout_seconds = timeout_seconds
        self._stage = _Stage.LOOK_UP
        self._connection: TcpStream | None = None
        self._started = 0.0

    async def run(self, expected: tuple[int, ...]) -> Answer:
        """Make the request and return the answer; its exit address is read only where the status is expected.

        Raises:
            ProbeFaultError: There is no answer; the message names the host.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._timeout_seconds
        try:
            try:
                async with asyncio.timeout_at(deadline):
                    stream, head, rest = await self._request(deadline)
            except TimeoutError as error:
                raise self._timed_out() from error
            latency = loop.time() - self._started
            exit_ip = await read_exit_ip(stream, head, rest, deadline) if head.status in expected else ""
            return Answer(status=head.status, latency_seconds=latency, exit_ip=exit_ip)
        finally:
            if self._connection is not None:
                self._connection.close()

    async def _request(self, deadline: float) -> tuple[Stream, Head, bytes]:
        self._connection = stream = await self._connect(deadline)
        secured = await self._secure(stream) if self._target.secure else stream
        self._stage = _Stage.REQUEST
        tunnelled = self._through_proxy and self._target.secure
        try:
            await secured.write(self._get())
            return secured, *await read_head(secured)
        except InvalidResponseError as error:
            raise self._fault(Reason.INVALID_RESPONSE, f"the response is {error}", ask_target=True) from error
        except OSError as error:
            reason = Reason.TUNNEL_BROKEN if tunnelled else Reason.CONNECTION_CLOSED
            raise self._fault(reason, f"no response: {describe(error)}", ask_target=True) from error

    async def _connect(self, deadline: float) -> TcpStream:
        try:
            addresses = await self._resolver.resolve(self._host, self._port)
        except OSError as error:
            raise self._fault(Reason.HOST_UNRESOLVED, f"its name does not resolve: {_lookup_text(error)}") from error
        self._stage = _Stage.CONNECT
        self._started = asyncio.get_running_loop().time()
        try:
            return await connect(addresses, deadline)
        except OSError as error:
            raise self._connect_fault(error) from error

    def _connect_fault(self, error: OSError) -> ProbeFaultError:
        text = f"no TCP connection: {describe(error)}"
        if isinstance(error, ConnectionError):
            return self._fault(Reason.CONNECT_REFUSED, text)
        if isinstance(error, TimeoutError):
            return self._fault(Reason.CONNECT_TIMEOUT, text)
        if error.errno in LOCAL_ERRORS:
            return self._fault(Reason.PROBER_ERROR, text, proves_nothing=True)
        return self._fault(Reason.HOST_UNREACHABLE, text)

    async def _secure(self, stream: TcpStream) -> TlsStream:
        if self._through_proxy:
            self._stage = _Stage.TUNNEL
            await self._open_tunnel(stream)
        self._stage = _Stage.TLS
        secured = TlsStream(stream, self._ssl_context, self._target.host)
        try:
            await secured.handshake()
        except OSError as error:
            text = f"no TLS with {self._target.authority}: {describe(error)}"
            raise self._fault(Reason.TUNNEL_BROKEN, text, ask_target=True) from error
        return secured

    async def _open_tunnel(self, stream: TcpStream) -> None:
        authority = self._target.authority
        try:
            await stream.write(_head_bytes(f"CONNECT {authority} HTTP/1.1", Host=authority))
            head, rest = await read_head(stream)
        except InvalidResponseError as error:
            raise self._fault(Reason.INVALID_RESPONSE, f"the answer to CONNECT is {error}") from error
        except OSError as error:
            text = f"no answer to CONNECT {authority}: {describe(error)}"
            raise self._fault(Reason.CONNECTION_CLOSED, text, ask_target=True) from error
        if not 200 <= head.status < 300:
            raise self._connect_refusal(head.status)
        if rest:
            # In TLS the client speaks first: these bytes are the proxy's own, and no tunnel is there.
            text = f"data before TLS in the tunnel to {authority}"
            raise self._fault(Reason.TUNNEL_BROKEN, text, ask_target=True)

    def _connect_refusal(self, status: int) -> ProbeFaultError:
        text = f"CONNECT {self._target.authority} was answered with {status_text(status)}"
        if status == http.HTTPStatus.PROXY_AUTHENTICATION_REQUIRED:
            return self._fault(Reason.AUTH_REJECTED, text)
        if status >= 500 and status not in _NO_CONNECT:
            return self._fault(Reason.PROXY_REFUSED, text, ask_target=True)
        return self._fault(Reason.CONNECT_REFUSED, text)

    def _get(self) -> bytes:
        target = self._target
        absolute = self._through_proxy and not target.secure
        authorization = {"Authorization": target.authorization} if target.authorization else {}
        return _head_bytes(
            f"GET {target.absolute_url if absolute else target.path} HTTP/1.1",
            Host=target.host_header,
            Accept="*/*",
            Connection="close",
            **authorization,
        )

    def _timed_out(self) -> ProbeFaultError:
        reason, text = self._stage.value
        within = f"{text} within {self._timeout_seconds:g} s"
        return self._fault(reason, within, ask_target=reason is Reason.PROBE_TIMEOUT)

    def _fault(
        self, reason: Reason, text: str, *, ask_target: bool = False, proves_nothing: bool = False
    ) -> ProbeFaultError:
        who = "proxy" if self._through_proxy else "target"
        message = f"{who} {host_and_port(self._host, self._port)}: {text}"
        return ProbeFaultError(reason, message, ask_target=ask_target, proves_nothing=proves_nothing)


def _lookup_text(error: OSError) -> str:
    """The resolver's own text: its codes are no errno."""
    return str(error.strerror) if isinstance(error, socket.gaierror) else describe(error)


def _head_bytes(request_line: str, **headers: str) -> bytes:
    lines = [request_line, *(f"{name}: {value}" for name, value in headers.items()), f"User-Agent: {USER_AGENT}"]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()
