"""One run: load, kills and changes at the same time, then the reckoning."""

import asyncio
import random
import time
from typing import Any

from app.dev.report import progress, step
from bench import kubectl
from bench.installation import Installation
from bench.torture.changes import Changes
from bench.torture.crowd import CrowdProcess, crowd
from bench.torture.fleet import CHANGING, STEADY, Fleet
from bench.torture.kills import Killer
from bench.torture.lists import until_free
from bench.torture.totals import CrowdSettings, Totals
from providers.local.settings import Software

STEADY_PROXIES = 20
MAX_LEASES = 5
CLIENTS = {STEADY: 110, CHANGING: 24}
"""More than there are slots, so that every slot is wanted all the time."""
_READY_SECONDS = 90.0
_SETTLE_SECONDS = 120.0
_LOAD_SECONDS = 3.0
_SHORTEST_PAUSE, _LONGEST_PAUSE = 1.0, 3.0


class Torture:
    """A run over one installation."""

    def __init__(self, installation: Installation, software: Software, totals: Totals) -> None:
        self._installation = installation
        self._fleet = Fleet(installation, software)
        self._totals = totals
        self._killer = Killer(installation, software, self._changing_uids)
        self._changes: Changes | None = None
        self._steady: dict[str, str] = {}

    async def run(self, seconds: float) -> None:
        """Torture for so long, then count.

        Raises:
            BenchError: The run itself did not work.
        """
        with step(f"making {STEADY_PROXIES} proxies with {MAX_LEASES} leases each, and some that will change"):
            self._changes = await self._make_fleet()
        settings = CrowdSettings(ports=list(self._installation.api_ports), clients=CLIENTS)
        async with crowd(settings) as clients:
            await asyncio.sleep(_LOAD_SECONDS)
            progress(f"without a kill: longest gap without a grant {await self._gap(clients, _LOAD_SECONDS):.2f} s")
            await self._torment(clients, self._changes, seconds)
            with step("everything is left alone: asking for every lease, then giving all back"):
                await self._audit(clients)
                self._take(await clients.stop())
        with step("waiting until every Proxy is Ready or gone, with one process each, and no slot is taken"):
            self._totals.problems += await self._fleet.until_settled(_SETTLE_SECONDS)
            self._totals.problems += await self._replaced()
            self._totals.problems += await until_free(self._installation.api_ports[0], settings.ttl_seconds + 15.0)
        for problem in self._totals.problems:
            progress(problem)

    async def _make_fleet(self) -> Changes:
        steady = [self._fleet.managed(f"steady-{number:02}", STEADY, MAX_LEASES) for number in range(STEADY_PROXIES)]
        await kubectl.apply(self._installation, steady)
        await self._fleet.until_ready(_READY_SECONDS)
        bodies = await self._fleet.objects()
        self._steady = {body["metadata"]["name"]: body["status"]["incarnation"] for body in bodies}
        changes = Changes(self._fleet, [body["status"]["ip"] for body in bodies])
        await changes.begin()
        await self._fleet.until_ready(_READY_SECONDS)
        return changes

    async def _torment(self, clients: CrowdProcess, changes: Changes, seconds: float) -> None:
        end = time.monotonic() + seconds
        async with asyncio.TaskGroup() as group:
            changing = group.create_task(changes.run())
            while time.monotonic() < end:
                await self._kill_once(clients)
            changing.cancel()
        progress(f"changes: {', '.join(f'{count} x {what}' for what, count in sorted(changes.done.items()))}")

    async def _kill_once(self, clients: CrowdProcess) -> None:
        kind, since = self._killer.next_kind(), time.monotonic()
        await self._killer.kill(kind)
        await asyncio.sleep(random.uniform(_SHORTEST_PAUSE, _LONGEST_PAUSE))
        for name in await self._killer.revive():
            self._totals.answers["processes that ended by themselves"] += 1
            progress(f"{name} had ended by itself")
        gap = await clients.longest_gap(since)
        self._totals.note_gap(kind, gap)
        progress(f"kill -9 of {kind}: longest gap {gap:.2f} s; {await self._audit(clients)}")

    async def _audit(self, clients: CrowdProcess) -> str:
        audit = await clients.audit()
        self._totals.answers["audited"] += audit["asked"]
        self._totals.answers["unanswered in an audit"] += audit["unanswered"]
        return f"{audit['known']} of {audit['asked']} leases known"

    async def _gap(self, clients: CrowdProcess, seconds: float) -> float:
        return await clients.longest_gap(time.monotonic() - seconds / 2)

    async def _changing_uids(self) -> list[str]:
        live = self._changes.live if self._changes is not None else []
        return [body["metadata"]["uid"] for body in await self._fleet.objects() if body["metadata"]["name"] in live]

    async def _replaced(self) -> list[str]:
        """Return which steady proxies were replaced, a sentence each; the count of their leases means nothing then."""
        now = {body["metadata"]["name"]: body["status"].get("incarnation", "") for body in await self._fleet.objects()}
        return [f"{name} was replaced" for name, incarnation in self._steady.items() if now.get(name) != incarnation]

    def _take(self, final: dict[str, Any]) -> None:
        self._totals.answers.update(final["answers"])
        for detail in final["details"]:
            progress(detail)
