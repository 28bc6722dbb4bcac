"""Probes that do not get as far as a connection."""

import asyncio
import errno
import resource
import socket
import time
from contextlib import ExitStack

import pytest

from model.probe import ProbeOutcome
from probing.probe import Prober
from tests.probing.conftest import Fake
from tests.probing.requests import TIMEOUT, request, timed
from tests.probing.servers import Origin, silent

BROKEN = ProbeOutcome.BROKEN
NO_VERDICT = ProbeOutcome.NO_VERDICT


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
