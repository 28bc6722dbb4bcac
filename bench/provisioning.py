"""From ``kubectl apply`` to Ready, beside what the proxies' own start takes in the same run."""

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass

from temporalio.client import Client

from app.dev.report import progress, step
from bench import kubectl, timeline
from bench.installation import Installation, provider_name
from bench.own_start import own_start
from bench.ready_watch import ReadyWatch
from bench.results import Row
from bench.usage import Usage
from providers.local.settings import Software

BEYOND_OWN_START_TARGET = 1.5
FLEET_TARGET = 60.0
FLEET_TARGET_SIZE = 100
_READY_SECONDS = 90.0
_GONE_SECONDS = 60.0


@dataclass(frozen=True, kw_only=True)
class Start:
    """One measurement, in seconds.

    Attributes:
        ready: From just before ``kubectl apply`` until the last Proxy was Ready.
        appeared: From the same moment until the last object was there: kubectl's and the API server's part.
        own: The proxies' own start.
    """

    ready: float
    appeared: float
    own: float


class Provisioning:
    """Measures starts in one installation."""

    def __init__(self, installation: Installation, watch: ReadyWatch, temporal: Client) -> None:
        self._installation = installation
        self._watch = watch
        self._temporal = temporal

    async def single(self, software: Software, runs: int) -> list[Row]:
        """Start one Proxy after another; each number is the median of the runs."""
        with step(f"kubectl apply -> Ready, 1 {software.value}, {runs} times"):
            starts = []
            for number in range(runs):
                proxies = [f"single-{provider_name(software)}-{number}"]
                starts.append(await self._start(software, proxies, timelined=number == runs - 1))
                await self.delete(proxies)
        return _rows(1, software, starts, BEYOND_OWN_START_TARGET)

    async def fleet(self, software: Software, size: int) -> list[Row]:
        """Start many Proxies with one ``kubectl apply`` and leave them running."""
        with step(f"kubectl apply -> all Ready, {size} {software.value} at once"):
            start = await self._start(software, self.fleet_names(software, size), timelined=True)
        return _rows(size, software, [start], None)

    def fleet_names(self, software: Software, size: int) -> list[str]:
        """Return the names of a fleet's Proxies."""
        return [f"fleet-{provider_name(software)}-{number:03}" for number in range(size)]

    async def delete(self, proxies: Sequence[str]) -> None:
        """Delete Proxies and wait until they are gone."""
        await kubectl.run(self._installation, "delete", "px", *proxies, "--wait=false")
        await self._watch.until_gone(proxies, _GONE_SECONDS)

    async def _start(self, software: Software, proxies: Sequence[str], *, timelined: bool) -> Start:
        installation, watch = self._installation, self._watch
        url = installation.probe_url
        objects = [kubectl.manifest(name, provider_name(software), url) for name in proxies]
        usage = Usage(installation.children)
        begun, begun_at = time.perf_counter(), time.time()
        await kubectl.apply(installation, objects)
        await watch.until_ready(proxies, _READY_SECONDS)
        ready = max(watch.ready[name] for name in proxies) - begun
        appeared = max(watch.appeared[name] for name in proxies) - begun
        spent = usage.spent()
        own = await own_start(installation, software, len(proxies))
        progress(f"Ready after {ready:.2f} s; object there after {appeared:.2f} s; own start {own:.2f} s")
        if timelined:
            for line in (spent, *await timeline.describe(self._temporal, proxies, begun_at)):
                progress(line)
        return Start(ready=ready, appeared=appeared, own=own)


def _rows(count: int, software: Software, starts: Sequence[Start], beyond_target: float | None) -> list[Row]:
    ready = statistics.median(start.ready for start in starts)
    appeared = statistics.median(start.appeared for start in starts)
    own = statistics.median(start.own for start in starts)
    beyond = statistics.median(start.ready - start.own for start in starts)
    prefix = f"{count}_{software.value}"
    target = FLEET_TARGET if count >= FLEET_TARGET_SIZE else None
    return [
        Row(name=f"apply_to_ready_{prefix}", value=ready, unit="s", target=target),
        Row(name=f"apply_to_object_{prefix}", value=appeared, unit="s"),
        Row(name=f"own_start_{prefix}", value=own, unit="s"),
        Row(name=f"apply_to_ready_beyond_own_start_{prefix}", value=beyond, unit="s", target=beyond_target),
    ]
