"""Faults of proxies and targets, and who is blamed for them."""

import asyncio
import errno
import resource
import socket
import ssl
import time
from collections.abc import Callable
from contextlib import ExitStack

import pytest

from model.probe import ProbeOutcome, ProbeResult
from probing.probe import Prober
from tests.probing.certificates import Authority
from tests.probing.conftest import Fake
from tests.probing.requests import TIMEOUT, eventually, request
from tests.probing.servers import Handler, Origin, Peer, response, silent, tunnel

BROKEN = ProbeOutcome.BROKEN
NO_VERDICT = ProbeOutcome.NO_VERDICT


def answers(answer: bytes) -> Handler:
    def handler(peer: Peer) -> None:
        peer.read_head()
        peer.send(answer)
        peer.linger()

    return handler


def closes(peer: Peer) -> None:
    peer.read_head()


def resets(peer: Peer) -> None:
    peer.read_head()
    peer.reset()


def answers_late(peer: Peer) -> None:
    peer.read_head()
    if not peer.linger(60):
        peer.send(response("503 Service Unavailable"))


def dribbles(peer: Peer) -> None:
    peer.read_head()
    peer.send(b"HTTP/1.1 200 OK\r\nX: ")
    while not peer.linger(0.1):
        peer.send(b"a")


def half_closes(peer: Peer) -> None:
    peer.read_head()
    peer.socket.shutdown(socket.SHUT_WR)
    peer.linger()


def tunnel_closes(peer: Peer) -> None:
    peer.read_head()
    peer.send(b"HTTP/1.1 200 OK\r\n\r\n")


def tunnel_resets(peer: Peer) -> None:
    peer.read_head()
    peer.send(b"HTTP/1.1 200 OK\r\n\r\n")
    peer.socket.recv(65536)
    peer.reset()


def tunnel_is_silent(peer: Peer) -> None:
    peer.read_head()
    peer.send(b"HTTP/1.1 200 OK\r\n\r\n")
    peer.linger()


def tunnel_speaks_plainly(peer: Peer) -> None:
    peer.read_head()
    peer.send(b"HTTP/1.1 200 OK\r\n\r\n")
    peer.socket.recv(65536)
    peer.send(response("204 No Content"))


WITHOUT_ASKING = [
    pytest.param(answers(response("407 Proxy Authentication Required")), "AuthRejected", "407", id="407"),
    pytest.param(answers(response("405 Method Not Allowed")), "ConnectRefused", "405 Method Not Allowed", id="405"),
    pytest.param(answers(response("403 Forbidden")), "ConnectRefused", "403 Forbidden", id="403"),
    pytest.param(answers(response("302 Found")), "ConnectRefused", "302 Found", id="captive portal"),
    pytest.param(answers(response("501 Not Implemented")), "ConnectRefused", "501 Not Implemented", id="501"),
    pytest.param(answers(b"SSH-2.0-OpenSSH_9.6\r\n"), "InvalidResponse", "no HTTP response", id="no http"),
    pytest.param(answers(bytes(range(256)) * 9), "InvalidResponse", "no HTTP response", id="bytes"),
    pytest.param(answers(b"HTTP/1.1 OK\r\n\r\n"), "InvalidResponse", "malformed HTTP status line", id="status line"),
    pytest.param(
        answers(response("200 OK", X="a" * 40_000)), "InvalidResponse", "more than 32768 bytes", id="huge headers"
    ),
    pytest.param(
        answers(b"HTTP/1.1 100 Continue\r\n\r\n" * 2_000), "InvalidResponse", "more than 32768 bytes", id="endless 100"
    ),
]

AFTER_ASKING = [
    pytest.param(closes, "ConnectionClosed", "no answer to CONNECT", id="closes"),
    pytest.param(resets, "ConnectionClosed", "Connection reset by peer", id="resets"),
    pytest.param(half_closes, "ConnectionClosed", "connection closed", id="half closes"),
    pytest.param(answers(response("503 Service Unavailable")), "ProxyRefused", "503 Service Unavailable", id="503"),
    pytest.param(answers(response("502 Bad Gateway")), "ProxyRefused", "502 Bad Gateway", id="502"),
    pytest.param(answers(response("599 Whatever")), "ProxyRefused", "answered with 599", id="599"),
    pytest.param(silent, "ProbeTimeout", f"no answer to CONNECT within {TIMEOUT:g} s", id="silent"),
    pytest.param(answers_late, "ProbeTimeout", "no answer to CONNECT", id="answers late"),
    pytest.param(dribbles, "ProbeTimeout", "no answer to CONNECT", id="dribbles"),
    pytest.param(tunnel_is_silent, "ProbeTimeout", "no TLS handshake", id="silent tunnel"),
    pytest.param(tunnel_closes, "TunnelBroken", "no TLS", id="tunnel closes"),
    pytest.param(tunnel_resets, "TunnelBroken", "Connection reset by peer", id="tunnel resets"),
    pytest.param(tunnel_speaks_plainly, "TunnelBroken", "TLS error WRONG_VERSION_NUMBER", id="no tls"),
    pytest.param(
        answers(b"HTTP/1.1 200 OK\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n"), "TunnelBroken", "data before TLS", id="data"
    ),
]


async def timed(prober: Prober, port: int, url: str) -> ProbeResult:
    """Probe, and hold the deadline: the timeout, and as long again for a target that is asked."""
    started = time.monotonic()
    result = await prober.probe(request(port, url))
    assert time.monotonic() - started < TIMEOUT + 1
    return result


@pytest.mark.parametrize(("handler", "reason", "text"), [*WITHOUT_ASKING, *AFTER_ASKING])
async def test_a_broken_proxy_is_blamed_while_the_target_answers(
    prober: Prober, origin: Origin, fake: Fake, handler: Handler, reason: str, text: str
) -> None:
    proxy = fake(handler)
    result = await timed(prober, proxy.port, origin.url)
    assert (result.outcome, result.reason) == (BROKEN, reason), result.message
    assert result.message.startswith(f"proxy 127.0.0.1:{proxy.port}: ")
    assert text in result.message
    assert result.latency_millis == 0


@pytest.mark.parametrize(("handler", "reason", "text"), WITHOUT_ASKING)
async def test_some_faults_blame_the_proxy_without_asking_the_target(
    prober: Prober, origin: Origin, fake: Fake, handler: Handler, reason: str, text: str
) -> None:
    await timed(prober, fake(handler).port, origin.url)
    assert origin.connections == 0


@pytest.mark.parametrize(("handler", "reason", "text"), AFTER_ASKING)
async def test_nobody_is_blamed_while_the_target_is_down(
    prober: Prober, closed_port: int, fake: Fake, handler: Handler, reason: str, text: str
) -> None:
    result = await timed(prober, fake(handler).port, f"https://127.0.0.1:{closed_port}/")
    assert (result.outcome, result.reason) == (NO_VERDICT, "TargetUnavailable")
    assert text in result.message
    assert f"asked directly, target 127.0.0.1:{closed_port}: no TCP connection: Connection refused" in result.message


@pytest.mark.parametrize(("handler", "reason", "text"), AFTER_ASKING)
async def test_without_the_target_check_the_target_counts_as_up(
    authority: Authority, closed_port: int, fake: Fake, handler: Handler, reason: str, text: str
) -> None:
    prober = Prober(ssl_context=authority.trust(), target_check=False)
    result = await timed(prober, fake(handler).port, f"https://127.0.0.1:{closed_port}/")
    assert (result.outcome, result.reason) == (BROKEN, reason)


async def test_dropped_packets_end_at_the_deadline(prober: Prober, origin: Origin, dropping_port: int) -> None:
    result = await timed(prober, dropping_port, origin.url)
    assert (result.outcome, result.reason) == (BROKEN, "ConnectTimeout")
    assert f"no TCP connection within {TIMEOUT:g} s" in result.message
    assert origin.connections == 0


async def test_a_refused_connection(prober: Prober, origin: Origin, closed_port: int) -> None:
    result = await timed(prober, closed_port, origin.url)
    assert (result.outcome, result.reason) == (BROKEN, "ConnectRefused")
    assert result.message == f"proxy 127.0.0.1:{closed_port}: no TCP connection: Connection refused"


@pytest.mark.parametrize("host", ["no-such-host.localhost.invalid", "a" * 300, "bad\0host", "-.-", "x..y"])
async def test_a_name_that_does_not_resolve(
    prober: Prober, origin: Origin, host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unknown(name: str, *_: object, **__: object) -> list[object]:
        name.encode("idna")
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    result = await prober.probe(request(3128, origin.url, host=host))
    assert (result.outcome, result.reason) == (BROKEN, "HostUnresolved"), result.message


async def test_hanging_look_ups_end_at_the_deadline_and_are_not_piled_up(
    prober: Prober, origin: Origin, monkeypatch: pytest.MonkeyPatch
) -> None:
    look_ups: list[str] = []
    with ExitStack() as stack:
        hanging = stack.enter_context(_Hanging(look_ups))
        monkeypatch.setattr(socket, "getaddrinfo", hanging.look_up)
        probes = [prober.probe(request(3128, origin.url, host="slow.invalid", timeout=0.3)) for _ in range(5)]
        results = await asyncio.gather(*probes)
    assert {result.reason for result in results} == {"HostUnresolved"}
    assert "did not resolve within 0.3 s" in results[0].message
    assert look_ups == ["slow.invalid"]


class _Hanging:
    """A resolver that answers when the block ends."""

    def __init__(self, look_ups: list[str]) -> None:
        self._look_ups = look_ups
        self._left, self._right = socket.socketpair()

    def __enter__(self) -> "_Hanging":
        return self

    def __exit__(self, *_: object) -> None:
        self._right.close()
        self._left.close()

    def look_up(self, name: str, *_: object, **__: object) -> list[object]:
        self._look_ups.append(name)
        with self._left.dup() as waiting:
            waiting.recv(1)
        raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")


@pytest.mark.parametrize(
    ("code", "reason", "outcome"),
    [
        (errno.ENETUNREACH, "HostUnreachable", BROKEN),
        (errno.EHOSTUNREACH, "HostUnreachable", BROKEN),
        (errno.EACCES, "HostUnreachable", BROKEN),
        (errno.ETIMEDOUT, "ConnectTimeout", BROKEN),
        (errno.ECONNRESET, "ConnectRefused", BROKEN),
        (errno.EADDRNOTAVAIL, "ProberError", NO_VERDICT),
    ],
)
async def test_what_the_network_says_about_a_connection(
    prober: Prober, origin: Origin, monkeypatch: pytest.MonkeyPatch, code: int, reason: str, outcome: ProbeOutcome
) -> None:
    async def fails(*_: object) -> None:
        raise OSError(code, "whatever")

    monkeypatch.setattr(asyncio.get_running_loop(), "sock_connect", fails)
    result = await prober.probe(request(3128, origin.url))
    assert (result.outcome, result.reason) == (outcome, reason)


async def test_a_worker_out_of_files_blames_nobody(prober: Prober, origin: Origin, closed_port: int) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with ExitStack() as stack:
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
        stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        try:
            while True:
                stack.enter_context(socket.socket())
        except OSError:
            pass
        result = await prober.probe(request(closed_port, origin.url))
    assert (result.outcome, result.reason) == (NO_VERDICT, "ProberError")
    assert "Too many open files" in result.message


async def test_a_defect_of_the_prober_blames_nobody_and_is_logged(
    prober: Prober, origin: Origin, closed_port: int, caplog: pytest.LogCaptureFixture
) -> None:
    result = await prober.probe(request(70_000, origin.url))
    assert (result.outcome, result.reason) == (NO_VERDICT, "ProberError")
    assert "OverflowError" in caplog.text


@pytest.mark.parametrize(
    "url",
    ["", "ftp://x/", "https://", "https:///path", "http://x:0/", "http://x:99999/", "http://[::1/", "http://a b/"],
)
async def test_a_url_that_cannot_be_used_blames_nobody(prober: Prober, closed_port: int, url: str) -> None:
    result = await prober.probe(request(closed_port, url))
    assert (result.outcome, result.reason) == (NO_VERDICT, "InvalidProbeURL")
    assert "healthCheck.probeURL" in result.message


async def test_an_unexpected_status_through_the_proxy_alone_blames_the_proxy(
    prober: Prober, origin: Origin, fake: Fake, authority: Authority
) -> None:
    other = Origin(response("429 Too Many Requests"), tls=authority.server("127.0.0.1"))

    def proxy(peer: Peer) -> None:
        peer.read_head()
        tunnel(peer, other.host, other.port)

    result = await prober.probe(request(fake(proxy).port, origin.url, timeout=5))
    other.close()
    assert (result.outcome, result.reason) == (BROKEN, "UnexpectedStatus")
    assert "429 Too Many Requests" in result.message


async def test_a_target_that_throttles_everybody_blames_nobody(
    prober: Prober, origin: Origin, proxy_py_port: int
) -> None:
    origin.answer = response("429 Too Many Requests")
    result = await prober.probe(request(proxy_py_port, origin.url, timeout=10))
    assert (result.outcome, result.reason) == (NO_VERDICT, "TargetUnavailable")
    assert f"asked directly, target {origin.authority}: 429 Too Many Requests" in result.message


async def test_a_real_proxy_in_front_of_a_target_that_is_down_is_not_blamed(
    prober: Prober, closed_port: int, proxy_py_port: int
) -> None:
    for scheme in ("http", "https"):
        result = await prober.probe(request(proxy_py_port, f"{scheme}://127.0.0.1:{closed_port}/", timeout=10))
        assert (result.outcome, result.reason) == (NO_VERDICT, "TargetUnavailable"), result.message


async def test_a_target_with_an_expired_certificate_blames_nobody(
    prober: Prober, authority: Authority, proxy_py_port: int
) -> None:
    origin = Origin(tls=authority.server("127.0.0.1", expired=True))
    result = await prober.probe(request(proxy_py_port, origin.url, timeout=10))
    origin.close()
    assert (result.outcome, result.reason) == (NO_VERDICT, "TargetUnavailable")
    assert result.message.count("certificate has expired") == 2


async def test_a_proxy_that_reads_along_is_blamed(
    prober: Prober, origin: Origin, fake: Fake, tmp_path_factory: pytest.TempPathFactory
) -> None:
    tls = Authority(tmp_path_factory.mktemp("stranger")).server("127.0.0.1")
    alerts: list[str] = []

    def proxy(peer: Peer) -> None:
        peer.read_head()
        peer.send(b"HTTP/1.1 200 OK\r\n\r\n")
        try:
            with tls.wrap_socket(peer.socket, server_side=True) as secured:
                secured.recv(1)
        except ssl.SSLError as error:
            alerts.append(error.reason)

    result = await prober.probe(request(fake(proxy).port, origin.url, timeout=5))
    assert (result.outcome, result.reason) == (BROKEN, "TunnelBroken")
    assert "certificate not accepted: unable to get local issuer certificate" in result.message
    await eventually(lambda: alerts == ["TLSV1_ALERT_UNKNOWN_CA"])


@pytest.mark.parametrize(
    ("handler", "reason"),
    [
        (answers(response("407 Proxy Authentication Required")), "AuthRejected"),
        (answers(response("503 Service Unavailable")), "UnexpectedStatus"),
        (answers(b"garbage\r\n\r\n"), "InvalidResponse"),
        (closes, "ConnectionClosed"),
        (silent, "ProbeTimeout"),
        (dribbles, "ProbeTimeout"),
    ],
)
async def test_plain_http_faults(
    prober: Prober, http_origin: Origin, closed_port: int, fake: Fake, handler: Handler, reason: str
) -> None:
    proxy = fake(handler)
    result = await timed(prober, proxy.port, http_origin.url)
    assert (result.outcome, result.reason) == (BROKEN, reason), result.message
    down = await timed(prober, proxy.port, f"http://127.0.0.1:{closed_port}/")
    assert down.outcome is (BROKEN if reason == "AuthRejected" else NO_VERDICT)


@pytest.mark.parametrize("broken", ["dropping", "silent"])
async def test_fifty_dead_proxies_do_not_delay_a_good_one(
    prober: Prober, origin: Origin, fake: Fake, proxy_py_port: int, dropping_port: int, broken: str
) -> None:
    port = dropping_port if broken == "dropping" else fake(silent).port
    dead = [asyncio.create_task(prober.probe(request(port, origin.url, timeout=3))) for _ in range(50)]
    await asyncio.sleep(0)
    started = time.monotonic()
    good = await prober.probe(request(proxy_py_port, origin.url, timeout=3))
    assert good.outcome is ProbeOutcome.WORKS
    assert time.monotonic() - started < 2
    assert not any(task.done() for task in dead)
    results = await asyncio.gather(*dead)
    assert time.monotonic() - started < 4
    assert {result.outcome for result in results} == {BROKEN}
    # One request through the good proxy, and one question for the fifty.
    assert origin.connections == (1 if broken == "dropping" else 2)


SECRET = "S3cr3t-xyz"


@pytest.mark.parametrize(
    "make_url",
    [
        lambda port: f"https://user:{SECRET}@127.0.0.1:{port}/?token={SECRET}",
        lambda port: f"http://user:{SECRET}@127.0.0.1:{port}/{SECRET}",
        lambda port: f"ftp://user:{SECRET}@127.0.0.1:{port}/",
        lambda port: f"http://user:{SECRET}@[127.0.0.1:{port}/",
        lambda port: f"user:{SECRET}@127.0.0.1:{port}",
    ],
)
async def test_no_secret_reaches_a_message_or_the_log(
    prober: Prober,
    fake: Fake,
    closed_port: int,
    caplog: pytest.LogCaptureFixture,
    make_url: Callable[[int], str],
) -> None:
    caplog.set_level("DEBUG")
    url = make_url(closed_port)
    echoing = response(f"407 {SECRET}", Set_Cookie=SECRET)
    for handler in (answers(echoing), answers(response(f"503 {SECRET}")), tunnel_closes, answers(SECRET.encode())):
        result = await prober.probe(request(fake(handler).port, url))
        assert SECRET not in result.message
        assert SECRET not in result.reason
    for host in (f"user:{SECRET}@127.0.0.1", f"user:{SECRET}@proxy.invalid\0"):
        for port in (closed_port, 70_000):
            assert SECRET not in (await prober.probe(request(port, url, host=host))).message
    assert SECRET not in caplog.text
