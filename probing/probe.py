"""One probe through a proxy: a fresh TCP connection, CONNECT, TLS, GET, an expected status.

An http URL is asked for by an absolute-form request instead of CONNECT and TLS. One total deadline covers everything
from the look-up of the proxy's name to the end of the response's head. Redirects are not followed: their status is a
status like any other. Variables such as ``HTTPS_PROXY`` and ``NO_PROXY`` are not looked at, and no trace context is
sent.

=====================================================  ==================  ============
what happened                                          reason              target asked
=====================================================  ==================  ============
an expected status came                                ProbeSucceeded      no
the proxy's name does not resolve, or not in time      HostUnresolved      no
no TCP connection in time                              ConnectTimeout      no
TCP connection refused or reset                        ConnectRefused      no
no route, or another network error                     HostUnreachable     no
407 to CONNECT, or to a plain http request             AuthRejected        no
1xx, 3xx, 4xx, 501 or 505 to CONNECT                   ConnectRefused      no
the answer to CONNECT is no HTTP, or too long          InvalidResponse     no
the proxy closed before it answered                    ConnectionClosed    yes
another 5xx to CONNECT                                 ProxyRefused        yes
the deadline passed after the TCP connection stood     ProbeTimeout        yes
2xx to CONNECT, then closed, reset or no valid TLS     TunnelBroken        yes
the response is no HTTP, or too long                   InvalidResponse     yes
a status that is not expected                          UnexpectedStatus    yes
this machine is out of files, ports or memory          ProberError         no
the URL cannot be used                                 InvalidProbeURL     no
=====================================================  ==================  ============

Where the target is asked, it is asked directly and with a deadline of the same length, so that a probe takes at most
twice its timeout. Does the target answer directly with an expected status, the proxy is broken. Otherwise the outcome
is NoVerdict and the reason TargetUnavailable: a target that is down, throttles everybody or has an expired certificate
proves nothing about a proxy. The last two rows have the outcome NoVerdict too. With ``target_check=False`` the target
counts as up. Many probes that fail at once share one question (``probing.target_check``).
"""

import http
import logging
import ssl
from dataclasses import dataclass

from model.errors import ConfigurationError, clean_message
from model.probe import ProbeOutcome, ProbeResult
from probing.exchange import Answer, Exchange
from probing.faults import ProbeFaultError, Reason
from probing.resolver import Resolver
from probing.response import status_text
from probing.target import ProbeTarget, host_and_port, parse_target
from probing.target_check import TargetCheck

_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class ProbeRequest:
    """What to probe and what to expect.

    Attributes:
        proxy_host: DNS name or IP address, IPv6 without brackets.
        url: What to fetch through the proxy.
        timeout_seconds: For the whole probe, the question to the target excepted.
    """

    proxy_host: str
    proxy_port: int
    url: str
    timeout_seconds: float
    expected_status_codes: tuple[int, ...]


class Prober:
    """Makes probes. One serves any number of concurrent probes on one event loop.

    Args:
        ssl_context: Trust for https targets.
        target_check: Whether this machine may ask targets directly.
    """

    def __init__(self, *, ssl_context: ssl.SSLContext, target_check: bool = True) -> None:
        self._ssl_context = ssl_context
        self._resolver = Resolver()
        self._targets = TargetCheck(resolver=self._resolver, ssl_context=ssl_context) if target_check else None

    def close(self) -> None:
        """Let go of the threads that look names up. No probe may follow."""
        self._resolver.close()

    async def probe(self, request: ProbeRequest) -> ProbeResult:
        """Probe once. Raises nothing but ``CancelledError``; takes at most twice the timeout."""
        try:
            return await self._probe(request)
        except Exception as error:
            # A defect of ours must neither blame the proxy nor end the watch over it.
            proxy = host_and_port(request.proxy_host, request.proxy_port)
            _log.exception("the probe of %s failed in a way that is not foreseen", clean_message(proxy))
            return _no_verdict(Reason.PROBER_ERROR, f"proxy {proxy}: unforeseen {type(error).__name__}")

    async def _probe(self, request: ProbeRequest) -> ProbeResult:
        try:
            target = parse_target(request.url)
        except ConfigurationError as error:
            return _no_verdict(Reason.INVALID_PROBE_URL, str(error))
        exchange = Exchange(
            host=request.proxy_host,
            port=request.proxy_port,
            target=target,
            through_proxy=True,
            resolver=self._resolver,
            ssl_context=self._ssl_context,
            timeout_seconds=request.timeout_seconds,
        )
        try:
            answer = await exchange.run(request.expected_status_codes)
            return _judge(request, target, answer)
        except ProbeFaultError as fault:
            return await self._blame(request, target, fault)

    async def _blame(self, request: ProbeRequest, target: ProbeTarget, fault: ProbeFaultError) -> ProbeResult:
        if fault.proves_nothing:
            return _no_verdict(fault.reason, str(fault))
        if fault.ask_target and self._targets is not None:
            direct = await self._targets.ask(target, request.timeout_seconds)
            if direct.status not in request.expected_status_codes:
                return _no_verdict(Reason.TARGET_UNAVAILABLE, f"{fault}; asked directly, {direct.text}")
        return ProbeResult(outcome=ProbeOutcome.BROKEN, reason=fault.reason, message=clean_message(str(fault)))


def _judge(request: ProbeRequest, target: ProbeTarget, answer: Answer) -> ProbeResult:
    proxy = host_and_port(request.proxy_host, request.proxy_port)
    text = f"proxy {proxy}: {target.authority} was answered with {status_text(answer.status)}"
    if answer.status == http.HTTPStatus.PROXY_AUTHENTICATION_REQUIRED and not target.secure:
        raise ProbeFaultError(Reason.AUTH_REJECTED, text)
    if answer.status not in request.expected_status_codes:
        raise ProbeFaultError(Reason.UNEXPECTED_STATUS, text, ask_target=True)
    return ProbeResult(
        outcome=ProbeOutcome.WORKS,
        reason=Reason.PROBE_SUCCEEDED,
        message=clean_message(text),
        latency_millis=max(1, round(answer.latency_seconds * 1000)),
        exit_ip=answer.exit_ip,
    )


def _no_verdict(reason: Reason, message: str) -> ProbeResult:
    return ProbeResult(outcome=ProbeOutcome.NO_VERDICT, reason=reason, message=clean_message(message))
