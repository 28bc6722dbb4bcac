"""The loop that repeats probes."""

import asyncio
import dataclasses
from collections.abc import Callable

import pytest

from model.health import HEALTHY, UNHEALTHY, HealthState
from model.probe import ProbeOutcome, ProbeResult
from model.proxy import HealthCheck
from probing import watch
from probing.probe import Prober, ProbeRequest
from probing.watch import HealthWatch, WatchTarget
from tests.probing.conftest import Fake
from tests.probing.requests import eventually
from tests.probing.servers import Origin, silent

WORKS = ProbeResult(outcome=ProbeOutcome.WORKS, reason="ProbeSucceeded", latency_millis=7)
BROKEN = ProbeResult(outcome=ProbeOutcome.BROKEN, reason="ConnectRefused")
HEALTHY_STATE = HealthState(verdict=HEALTHY, consecutive_successes=1, reported_latency_millis=7, reported_at=1e9)


class Scripted:
    """Gives these results, then the last one for ever, and notes when it was asked."""

    def __init__(self, *results: ProbeResult, seconds: float = 0.0) -> None:
        self._results = list(results)
        self._seconds = seconds
        self.started: list[float] = []
        self.requests: list[ProbeRequest] = []
        self.in_flight = 0
        self.most_in_flight = 0

    async def probe(self, request: ProbeRequest) -> ProbeResult:
        self.started.append(asyncio.get_running_loop().time())
        self.requests.append(request)
        self.in_flight += 1
        self.most_in_flight = max(self.in_flight, self.most_in_flight)
        try:
            await asyncio.sleep(self._seconds)
        finally:
            self.in_flight -= 1
        return self._results.pop(0) if len(self._results) > 1 else self._results[0]


def make(
    prober: Scripted | Prober,
    *,
    state: HealthState = HealthState(),  # noqa: B008
    check: HealthCheck = HealthCheck(interval_seconds=1),  # noqa: B008
    port: int = 3128,
    on_probe: Callable[[ProbeResult], None] = lambda _: None,
    clock: Callable[[], float] = lambda: 1e9,
    spread: float = 0.0,
) -> HealthWatch:
    target = WatchTarget(namespace="default", name="one", uid="u", host="127.0.0.1", port=port, check=check)
    return HealthWatch(prober=prober, target=target, state=state, on_probe=on_probe, clock=clock, spread=lambda: spread)


def ignore(_: HealthState) -> None:
    """A heartbeat that nobody needs."""


async def test_a_verdict_whose_telling_was_lost_is_told_by_the_next_watch() -> None:
    beats: list[HealthState] = []
    check = HealthCheck(interval_seconds=1, failure_threshold=2)
    first = make(Scripted(BROKEN), state=HEALTHY_STATE, check=check)
    _, lost = await first.run(beats.append)
    assert lost.verdict == UNHEALTHY

    _, told = await make(Scripted(BROKEN), state=beats[-1], check=check).run(ignore)

    assert told.verdict == UNHEALTHY


async def test_a_fresh_proxy_is_probed_at_once_and_the_first_verdict_is_told() -> None:
    loop = asyncio.get_running_loop()
    started = loop.time()
    seen: list[ProbeResult] = []
    beats: list[HealthState] = []
    prober = Scripted(WORKS)
    state, change = await make(prober, on_probe=seen.append, spread=0.9).run(beats.append)
    assert loop.time() - started < 0.5
    assert (change.verdict, change.reason, change.latency_millis) == (HEALTHY, "ProbeSucceeded", 7)
    assert change.checked_at == "2001-09-09T01:46:40Z"
    assert seen == [WORKS]
    assert state.verdict == HEALTHY
    assert beats == []
    request = prober.requests[0]
    assert (request.proxy_host, request.proxy_port, request.timeout_seconds) == ("127.0.0.1", 3128, 5)
    assert request.url == "https://www.gstatic.com/generate_204"
    assert request.expected_status_codes == (200, 204)


async def test_a_known_proxy_waits_its_part_of_the_interval_and_keeps_its_counters() -> None:
    state = dataclasses.replace(HEALTHY_STATE, consecutive_failures=2)
    prober = Scripted(BROKEN)
    started = asyncio.get_running_loop().time()
    after, change = await make(prober, state=state, spread=0.5).run(ignore)
    assert 0.5 <= prober.started[0] - started < 0.9
    assert (after.verdict, after.consecutive_failures, change.verdict) == (UNHEALTHY, 3, UNHEALTHY)


async def test_probes_start_one_interval_apart() -> None:
    prober = Scripted(BROKEN, seconds=0.6)
    await make(prober, state=HEALTHY_STATE).run(ignore)
    gaps = [later - earlier for earlier, later in zip(prober.started, prober.started[1:], strict=False)]
    assert len(gaps) == 2
    assert all(0.99 <= gap < 1.55 for gap in gaps)


async def test_a_slow_probe_is_followed_at_once_by_one_more_and_never_joined() -> None:
    prober = Scripted(BROKEN, seconds=1.3)
    await make(prober, state=HEALTHY_STATE).run(ignore)
    gaps = [later - earlier for earlier, later in zip(prober.started, prober.started[1:], strict=False)]
    assert all(1.29 <= gap < 1.9 for gap in gaps)
    assert prober.most_in_flight == 1


async def test_a_hung_proxy_counts_one_failure_per_timeout(prober: Prober, origin: Origin, fake: Fake) -> None:
    proxy = fake(silent)
    check = HealthCheck(probe_url=origin.url, interval_seconds=1, timeout_seconds=2, failure_threshold=2)
    results: list[ProbeResult] = []
    run = asyncio.create_task(
        make(prober, state=HEALTHY_STATE, check=check, port=proxy.port, on_probe=results.append).run(ignore)
    )
    await eventually(lambda: proxy.connections == 2)
    assert [result.reason for result in results] == ["ProbeTimeout"]
    state, change = await run
    assert (state.verdict, change.reason, len(results)) == (UNHEALTHY, "ProbeTimeout", 2)


async def test_heartbeats_go_on_during_slow_probes_and_long_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "HEARTBEAT_SECONDS", 0.1)
    beats: list[HealthState] = []
    check = HealthCheck(interval_seconds=1, failure_threshold=1)
    await make(Scripted(WORKS, BROKEN, seconds=0.55), state=HEALTHY_STATE, check=check).run(beats.append)
    # Two probes of 0.55 s with 0.45 s between them: 15 beats on an idle machine, 2 without the timer.
    assert 6 <= len(beats) <= 17
    before = len(beats)
    await asyncio.sleep(0.3)
    assert len(beats) == before


async def test_cancelling_ends_probe_and_heartbeats(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "HEARTBEAT_SECONDS", 0.05)
    beats: list[HealthState] = []
    prober = Scripted(WORKS, seconds=30)
    run = asyncio.create_task(make(prober).run(beats.append))
    await eventually(lambda: len(beats) >= 2)
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert prober.in_flight == 0
    before = len(beats)
    await asyncio.sleep(0.2)
    assert len(beats) == before


async def test_a_jumping_wall_clock_neither_hurries_nor_stops_the_probes() -> None:
    clock = iter([2e9, 1e9, 3e9])
    prober = Scripted(BROKEN)
    _, change = await make(prober, state=HEALTHY_STATE, clock=lambda: next(clock)).run(ignore)
    assert len(prober.started) == 3
    assert 1.98 <= prober.started[2] - prober.started[0] < 2.5
    assert change.checked_at == "2065-01-24T05:20:00Z"


async def test_a_wake_makes_it_probe_at_once_and_again_after_a_probe_that_runs() -> None:
    prober = Scripted(WORKS, seconds=0.2)
    health = make(prober, state=HEALTHY_STATE, check=HealthCheck(interval_seconds=600), spread=0.9)
    running = asyncio.create_task(health.run(ignore))
    try:
        await asyncio.sleep(0.05)
        assert prober.started == []
        health.wake()
        await eventually(lambda: prober.in_flight == 1)
        health.wake()
        health.wake()
        await eventually(lambda: len(prober.started) == 2)
        await asyncio.sleep(0.5)
        assert len(prober.started) == 2
        assert prober.most_in_flight == 1
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
