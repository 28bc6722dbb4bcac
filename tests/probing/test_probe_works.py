"""Probes through real forward proxies to real origins."""

import asyncio
import os
import socket
import time

import pytest

from model.probe import ProbeOutcome
from probing.probe import Prober
from tests.probing.certificates import Authority
from tests.probing.conftest import Fake
from tests.probing.requests import eventually, request
from tests.probing.servers import Origin, Peer, ScriptedServer, relay, response, silent, tunnel


async def test_https_goes_through_a_real_proxy(prober: Prober, origin: Origin, proxy_py_port: int) -> None:
    result = await prober.probe(request(proxy_py_port, origin.url, timeout=10))
    assert (result.outcome, result.reason) == (ProbeOutcome.WORKS, "ProbeSucceeded")
    assert 0 < result.latency_millis < 10_000
    assert origin.connections == 1
    head = origin.requests[0]
    assert head.startswith("GET /generate_204 HTTP/1.1\r\n")
    assert f"Host: {origin.authority}\r\n" in head
    assert "User-Agent: egress-proxies-health-check\r\n" in head
    assert "Connection: close\r\n" in head
    assert "traceparent" not in head.lower()


async def test_http_goes_through_a_real_proxy(prober: Prober, http_origin: Origin, proxy_py_port: int) -> None:
    result = await prober.probe(request(proxy_py_port, http_origin.url, timeout=10))
    assert result.outcome is ProbeOutcome.WORKS
    assert http_origin.requests[0].startswith("GET /generate_204 HTTP/1.1\r\n")


async def test_http_is_asked_for_in_absolute_form(prober: Prober, fake: Fake) -> None:
    heads: list[str] = []

    def proxy(peer: Peer) -> None:
        heads.append(peer.read_head())
        peer.send(response("200 OK"))

    result = await prober.probe(request(fake(proxy).port, "http://user:secret@target.invalid/a b?q=é"))
    assert result.outcome is ProbeOutcome.WORKS
    assert heads[0].startswith("GET http://target.invalid/a%20b?q=%C3%A9 HTTP/1.1\r\n")
    assert "Host: target.invalid\r\n" in heads[0]
    assert "Authorization: Basic dXNlcjpzZWNyZXQ=\r\n" in heads[0]


async def test_the_target_is_named_in_a_labels_and_its_certificate_is_checked_for_them(
    authority: Authority, fake: Fake
) -> None:
    origin = Origin(tls=authority.server("xn--bcher-kva.example"))
    heads: list[str] = []

    def proxy(peer: Peer) -> None:
        heads.append(peer.read_head())
        tunnel(peer, origin.host, origin.port)

    prober = Prober(ssl_context=authority.trust(), target_check=False)
    port = fake(proxy).port
    works = await prober.probe(request(port, "https://Bücher.example/", timeout=10))
    assert works.outcome is ProbeOutcome.WORKS, works.message
    assert heads[0].startswith("CONNECT xn--bcher-kva.example:443 HTTP/1.1\r\nHost: xn--bcher-kva.example:443\r\n")
    other = await prober.probe(request(port, "https://other.example/", timeout=10))
    assert other.reason == "TunnelBroken"
    assert "Hostname mismatch" in other.message
    origin.close()


async def test_proxies_and_targets_on_ipv6(authority: Authority, prober: Prober) -> None:
    origin = Origin(host="::1", tls=authority.server("::1"))
    proxy = ScriptedServer(relay, host="::1")
    result = await prober.probe(request(proxy.port, origin.url, host="::1", timeout=10))
    assert result.outcome is ProbeOutcome.WORKS, result.message
    assert f"Host: [::1]:{origin.port}\r\n" in origin.requests[0]
    assert result.message == f"proxy [::1]:{proxy.port}: [::1]:{origin.port} was answered with 204 No Content"
    proxy.close()
    origin.close()


async def test_a_proxy_is_found_by_its_name(prober: Prober, origin: Origin, proxy_py_port: int) -> None:
    result = await prober.probe(request(proxy_py_port, origin.url, host="localhost", timeout=10))
    assert result.outcome is ProbeOutcome.WORKS, result.message


async def test_variables_of_the_environment_are_not_looked_at(
    monkeypatch: pytest.MonkeyPatch, prober: Prober, origin: Origin, proxy_py_port: int, closed_port: int
) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{closed_port}")
        monkeypatch.setenv(name.lower(), f"http://127.0.0.1:{closed_port}")
    works = await prober.probe(request(proxy_py_port, origin.url, timeout=10))
    assert works.outcome is ProbeOutcome.WORKS

    monkeypatch.setenv("NO_PROXY", "*")
    monkeypatch.setenv("no_proxy", "*")
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{proxy_py_port}")
    refused = await prober.probe(request(closed_port, origin.url))
    assert refused.reason == "ConnectRefused"


async def test_a_redirect_is_a_status_like_any_other(prober: Prober, origin: Origin, proxy_py_port: int) -> None:
    origin.answer = response("302 Found", Location="https://127.0.0.1:1/elsewhere")
    works = await prober.probe(request(proxy_py_port, origin.url, timeout=10, expected=(302,)))
    assert works.outcome is ProbeOutcome.WORKS
    assert origin.connections == 1


async def test_interim_responses_are_passed_over(prober: Prober, origin: Origin, proxy_py_port: int) -> None:
    origin.answer = b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + response()
    assert (await prober.probe(request(proxy_py_port, origin.url, timeout=10))).outcome is ProbeOutcome.WORKS


@pytest.mark.parametrize(
    "answer",
    [
        response("200 OK", b"203.0.113.7\n"),
        response("200 OK", b'{"ip": "203.0.113.7", "city": "x"}'),
        response("204 No Content", X_Exit_IP="203.0.113.7"),
        response("200 OK", X_Padding="a" * 20_000) + b"203.0.113.7",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;x=y\r\n203.0\r\n6\r\n.113.7\r\n0\r\n\r\n",
    ],
)
async def test_the_exit_address_is_recorded(prober: Prober, origin: Origin, proxy_py_port: int, answer: bytes) -> None:
    origin.answer = answer
    result = await prober.probe(request(proxy_py_port, origin.url, timeout=10))
    assert (result.outcome, result.exit_ip) == (ProbeOutcome.WORKS, "203.0.113.7")


@pytest.mark.parametrize(
    "answer",
    [
        response("200 OK", Content_Length="10") + b"203.",
        response("200 OK", Content_Length="nonsense"),
        response("200 OK", Transfer_Encoding="chunked") + b"zz\r\n",
        response("200 OK", b"x" * 100_000),
        response("200 OK", b'{"ip": "not an address"}'),
        response("200 OK", b'{"ip": '),
    ],
)
async def test_a_body_that_tells_no_address_does_not_fail_the_probe(
    prober: Prober, origin: Origin, proxy_py_port: int, answer: bytes
) -> None:
    origin.answer = answer
    result = await prober.probe(request(proxy_py_port, origin.url, timeout=10))
    assert (result.outcome, result.exit_ip) == (ProbeOutcome.WORKS, "")


@pytest.mark.parametrize(("timeout", "longest"), [(0.4, 0.9), (10.0, 2.0)])
async def test_a_body_that_never_comes_neither_fails_the_probe_nor_holds_it_up(
    prober: Prober, fake: Fake, timeout: float, longest: float
) -> None:
    def proxy(peer: Peer) -> None:
        peer.read_head()
        peer.send(response("200 OK", Content_Length="11"))
        peer.linger()

    started = time.monotonic()
    result = await prober.probe(request(fake(proxy).port, "http://target.invalid/", timeout=timeout))
    assert (result.outcome, result.exit_ip) == (ProbeOutcome.WORKS, "")
    assert time.monotonic() - started < longest


async def test_an_address_that_drops_packets_leaves_time_for_the_next(
    prober: Prober, origin: Origin, proxy_py_port: int, dropping_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def two_addresses(*_: object, **__: object) -> list[object]:
        ports = (dropping_port, proxy_py_port)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port)) for port in ports]

    monkeypatch.setattr(socket, "getaddrinfo", two_addresses)
    result = await prober.probe(request(3128, origin.url, host="proxy.invalid", timeout=3))
    assert result.outcome is ProbeOutcome.WORKS, result.message


async def test_no_file_descriptor_stays_open(prober: Prober, origin: Origin, fake: Fake) -> None:
    proxy = fake(relay)
    dead = fake(lambda peer: peer.reset())
    for port in (proxy.port, dead.port):
        await prober.probe(request(port, origin.url, timeout=5))
    before = _client_sockets(proxy.port) + _client_sockets(dead.port)
    assert before == 0


def _client_sockets(peer_port: int) -> int:
    """How many sockets of this process are connected to that port."""
    found = 0
    for name in os.listdir("/proc/self/fd"):
        try:
            with socket.socket(fileno=os.dup(int(name))) as sock:
                found += sock.getpeername()[1] == peer_port
        except (OSError, TypeError, IndexError):
            continue
    return found


async def test_a_cancelled_probe_lets_go_of_its_connection(prober: Prober, fake: Fake) -> None:
    proxy = fake(silent)
    probe = asyncio.create_task(prober.probe(request(proxy.port, "https://127.0.0.1:1/", timeout=20)))
    await eventually(lambda: proxy.connections == 1)
    assert _client_sockets(proxy.port) == 1
    probe.cancel()
    with pytest.raises(asyncio.CancelledError):
        await probe
    assert _client_sockets(proxy.port) == 0
