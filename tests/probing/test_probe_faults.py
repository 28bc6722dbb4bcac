"""Faults of proxies after the connection stands, and who is blamed for them."""

from collections.abc import Callable

import pytest

from model.probe import ProbeOutcome
from probing.probe import Prober
from tests.probing.certificates import Authority
from tests.probing.conftest import Fake
from tests.probing.faulty_proxies import (
    answers,
    answers_late,
    closes,
    dribbles,
    half_closes,
    resets,
    tunnel_closes,
    tunnel_is_silent,
    tunnel_resets,
    tunnel_speaks_plainly,
)
from tests.probing.requests import TIMEOUT, request, timed
from tests.probing.servers import Handler, Origin, response, silent

BROKEN = ProbeOutcome.BROKEN
NO_VERDICT = ProbeOutcome.NO_VERDICT

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
