"""A fleet created, edited so that every instance is replaced, and deleted: times and what each Proxy costs."""

import asyncio
import json
import statistics
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import psutil
from temporalio.client import Client

from app.dev.report import progress, step
from bench import kubectl
from bench.installation import PROXY_PORT, Installation, provider_name
from bench.request_counts import READS, WRITES, Counts, describe, request_counts, total
from bench.results import BenchError, Row
from bench.usage import Usage
from model.names import proxy_workflow_id
from providers.local.settings import Software

OTHER_PORT = PROXY_PORT + 1
_POLL_SECONDS = 0.5
_CHECK = {"intervalSeconds": 30, "timeoutSeconds": 10}


@dataclass(kw_only=True)
class Phase:
    """What one phase took.

    Attributes:
        seconds: From just before the command until every Proxy is as it was told.
        requests: What the API server was asked meanwhile, without the user's own request per Proxy.
        events: History events that the phase added, by Proxy.
        spent: Processor time by process, as a line.
    """

    name: str
    seconds: float
    requests: Counts
    events: dict[str, int] = field(default_factory=dict)
    spent: str = ""

    def rows(self) -> list[Row]:
        """Return the numbers per Proxy."""
        count, prefix = len(self.events), f"fleet_{len(self.events)}_{self.name}"
        return [
            Row(name=prefix, value=self.seconds, unit="s"),
            Row(name=f"{prefix}_writes_per_proxy", value=total(self.requests, WRITES) / count, unit="requests"),
            Row(
                name=f"{prefix}_events_per_proxy", value=total(self.requests, WRITES, "events") / count, unit="requests"
            ),
            Row(name=f"{prefix}_reads_per_proxy", value=total(self.requests, READS) / count, unit="requests"),
            Row(name=f"{prefix}_history_events_median", value=statistics.median(self.events.values()), unit="events"),
            Row(name=f"{prefix}_history_events_most", value=max(self.events.values()), unit="events"),
        ]


class FleetRun:
    """One run over one installation."""

    def __init__(self, installation: Installation, software: Software, temporal: Client, deadline: float) -> None:
        """Prepare.

        Args:
            installation: The running system.
            software: What the proxies run.
            temporal: Where their histories are.
            deadline: Seconds that one phase may take.
        """
        self._installation = installation
        self._software = software
        self._temporal = temporal
        self._deadline = deadline
        self._runs: dict[str, str] = {}
        self._first: dict[str, str] = {}

    async def run(self, count: int) -> tuple[list[Phase], float]:
        """Create, edit and delete so many Proxies.

        Returns:
            The phases, and the memory of one proxy process in MiB, shared pages counted by their share.

        Raises:
            BenchError: A phase did not come to its end in time.
        """
        names = [f"fleet-{number:03}" for number in range(count)]
        before = dict.fromkeys(names, 0)
        created, before = await self._phase("created", names, before, lambda: self._apply(names, PROXY_PORT), _is_ready)
        objects = await self._objects()
        self._first = {name: body["status"]["incarnation"] for name, body in objects.items()}
        memory = await asyncio.to_thread(self._memory)
        progress(f"one proxy takes {memory:.1f} MiB")
        edited, before = await self._phase(
            "replaced", names, before, lambda: self._apply(names, OTHER_PORT), self._is_replaced
        )
        deleted, _ = await self._phase("deleted", names, before, lambda: self._delete(names), None)
        return [created, edited, deleted], memory

    async def _phase(
        self,
        name: str,
        proxies: list[str],
        before: Mapping[str, int],
        begin: Callable[[], Awaitable[None]],
        reached: Callable[[Mapping[str, Any]], bool] | None,
    ) -> tuple[Phase, dict[str, int]]:
        with step(f"{len(proxies)} proxies: {name}"):
            requests, usage = await request_counts(self._installation), Usage(self._installation.children)
            started = time.perf_counter()
            await begin()
            await self._until(name, proxies, reached)
            seconds = time.perf_counter() - started
            spent = usage.spent()
            lengths = await self._lengths(proxies)
            counts = await request_counts(self._installation)
        counts.subtract(requests)
        for verb, count in self._of_the_user(name, len(proxies)).items():
            counts[verb, "proxies"] -= count
        # The looks of this program itself.
        counts["LIST", "proxies"] -= self._looks
        added = {proxy: lengths[proxy] - before[proxy] for proxy in proxies}
        phase = Phase(name=name, seconds=seconds, requests=+counts, events=added, spent=spent)
        progress(f"{seconds:.1f} s; {spent}")
        progress(f"asked of the API server: {describe(phase.requests)}")
        return phase, lengths

    @staticmethod
    def _of_the_user(phase: str, count: int) -> dict[str, int]:
        """Return the requests of ``kubectl`` itself, a look and a write per Proxy; a delete looks nothing up."""
        return {
            "created": {"GET": count, "POST": count},
            "replaced": {"GET": count, "PATCH": count},
            "deleted": {"DELETE": count},
        }[phase]

    async def _until(self, what: str, proxies: list[str], reached: Callable[[Mapping[str, Any]], bool] | None) -> None:
        self._looks = 0
        end = time.monotonic() + self._deadline
        while True:
            objects = await self._objects()
            self._looks += 1
            if reached is None:
                missing = list(objects)
            else:
                missing = [name for name in proxies if name not in objects or not reached(objects[name])]
            if not missing:
                return
            if time.monotonic() > end:
                raise BenchError(
                    f"{len(missing)} Proxies are not {what} after {self._deadline:g} s, {missing[0]} for one"
                )
            await asyncio.sleep(_POLL_SECONDS)

    async def _objects(self) -> dict[str, dict[str, Any]]:
        listed = json.loads(await kubectl.run(self._installation, "get", "px", "-o", "json", "--chunk-size=0"))
        return {body["metadata"]["name"]: body for body in listed["items"]}

    async def _apply(self, names: list[str], port: int) -> None:
        await kubectl.apply(self._installation, [self._manifest(name, port) for name in names])

    def _manifest(self, name: str, port: int) -> dict[str, Any]:
        body = kubectl.manifest(name, provider_name(self._software), self._installation.probe_url)
        body["spec"] |= {"port": port, "healthCheck": {**body["spec"]["healthCheck"], **_CHECK}}
        return body

    async def _delete(self, names: list[str]) -> None:
        await kubectl.run(self._installation, "delete", "px", *names, "--wait=false")

    def _is_replaced(self, body: Mapping[str, Any]) -> bool:
        return _is_ready(body) and body["status"].get("incarnation") != self._first[body["metadata"]["name"]]

    async def _lengths(self, proxies: list[str]) -> dict[str, int]:
        """Return the length of each Proxy's history; a run that has ended meanwhile is the one from before."""

        async def length(name: str) -> int:
            handle = self._temporal.get_workflow_handle(
                proxy_workflow_id(kubectl.NAMESPACE, name), run_id=self._runs.get(name)
            )
            description = await handle.describe()
            self._runs.setdefault(name, description.run_id)
            return description.history_length

        return dict(zip(proxies, await asyncio.gather(*map(length, proxies)), strict=True))

    def _memory(self) -> float:
        """Return the memory of one proxy process in MiB."""
        folder = f"{self._installation.directory / 'proxies' / self._software.value / 'instances'}/"
        shares = []
        for process in psutil.process_iter(["status", "cmdline"]):
            if any(folder in word for word in process.info["cmdline"] or ()):
                shares.append(process.memory_full_info().pss / 2**20)
        if not shares:
            raise BenchError("no proxy process was found")
        return float(statistics.mean(shares))


def _is_ready(body: Mapping[str, Any]) -> bool:
    generation = body["metadata"]["generation"]
    return any(
        one["type"] == "Ready" and one["status"] == "True" and one.get("observedGeneration") == generation
        for one in body.get("status", {}).get("conditions", [])
    )
