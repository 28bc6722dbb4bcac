"""Targets in trouble, and proxies that only make them look so."""

import ssl

import pytest

from model.probe import ProbeOutcome
from probing.probe import Prober
from tests.probing.certificates import Authority
from tests.probing.conftest import Fake
from tests.probing.requests import eventually, request
from tests.probing.servers import Origin, Peer, response, tunnel

BROKEN = ProbeOutcome.BROKEN
NO_VERDICT = ProbeOutcome.NO_VERDICT


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
