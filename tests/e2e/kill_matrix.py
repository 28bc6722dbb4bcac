"""One process killed at every boundary of one operation: a Proxy per boundary, all of them held when it dies."""

import asyncio
import contextlib
import secrets
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

from temporalio.api.enums.v1 import EventType
from temporalio.client import WorkflowExecutionDescription, WorkflowExecutionStatus

from model.instance import InstanceState
from tests.e2e.fleet_state import Fleet, FleetState, answers_connect
from tests.e2e.gates import Gates
from tests.e2e.kill_cells import ACTIVITIES, Cell, Operation, cells_of
from tests.e2e.polling import eventually
from tests.e2e.system import System, condition
from tests.e2e.victims import Victim
from tests.probing.servers import Origin
from tests.support.kubectl import proxy

FIRST_PORT, OTHER_PORT = 3128, 3129
_DRAIN_SECONDS = 5
_READY_SECONDS = 300.0
_GATES_SECONDS = 240.0
_SETTLE_SECONDS = 360.0
_ANSWER_SECONDS = 60.0
_CRAWLERS = 4
_LOOK_PAUSE = 0.5
"""Between looks at everything, which take the processor from what is looked at."""


class KillMatrix:
    """The cells of one operation, in a system whose worker is stopped at gates.

    Attributes:
        cells: One per boundary.
        seconds: What each part of the run took.
    """

    def __init__(self, system: System, site: Origin, gates: Gates, trust: Path) -> None:
        self._system = system
        self._site = site
        self._gates = gates
        self._trust = trust
        network = f"127.{secrets.randbelow(100) + 20}.{secrets.randbelow(256)}.0/24"
        self._fleet = Fleet(system, IPv4Network(network))
        self._crawlers = asyncio.Semaphore(_CRAWLERS)
        self.cells: list[Cell] = []
        self.seconds: dict[str, float] = {}

    async def close(self) -> None:
        """Close connections."""
        await self._fleet.close()

    @contextlib.contextmanager
    def _timed(self, part: str) -> Iterator[None]:
        started = time.monotonic()
        try:
            yield
        finally:
            self.seconds[part] = time.monotonic() - started

    async def run(self, operation: Operation, victim: Victim) -> list[str]:
        """Kill the victim while a Proxy stands at each boundary; return what is wrong afterwards, a line each."""
        with self._timed("prepare"):
            stranger = await self._fleet.invite_stranger()
            before = await self._prepare(["steady", "pilot"])
            lease = await self._lease("steady")
            await self._lay_out(operation)
        with self._timed("hold"):
            for cell in self.cells:
                self._gates.set(cell.proxy, cell.boundary)
            await self._begin(operation, [cell.proxy for cell in self.cells])
            await self._until_held(operation)
        with self._timed("restart"):
            await victim.kill([cell.proxy for cell in self.cells if cell.held])
            self._gates.open()
            await victim.restart()
        with self._timed("settle"):
            await self._until_settled(operation)
        problems = [f"{cell.boundary}: {cell.result}" for cell in self.cells if cell.problems]
        problems += [f"{cell.boundary}: not reached" for cell in self.cells if not cell.held and not cell.may_be_missed]
        if await self._fleet.stranger_now(stranger) != (stranger.incarnation, InstanceState.RUNNING):
            problems.append("the stranger's instance was touched")
        after = (await self._system.get("steady"))["status"]
        if after["incarnation"] != before.objects["steady"]["status"]["incarnation"]:
            problems.append("an instance that nobody did anything to was replaced")
        return problems + await self._lease_problems(lease)

    # ------------------------------------------------------------------ before

    def _object(self, name: str, port: int) -> dict[str, Any]:
        check = {"probeURL": self._site.url, "intervalSeconds": 5, "timeoutSeconds": 5}
        common = {"mode": "Managed", "provider": "box", "healthCheck": check, "attributes": {"cell": name}}
        return proxy(name, {**common, "port": port, "drainSeconds": _DRAIN_SECONDS})

    async def _apply(self, names: list[str], port: int) -> None:
        bodies = [self._object(name, port) for name in names]
        result = await asyncio.to_thread(self._system.kubectl.apply, *bodies)
        assert result.returncode == 0, result.stderr

    async def _prepare(self, names: list[str]) -> FleetState:
        """Make Proxies and wait until all is as it should be."""
        await self._apply(names, FIRST_PORT)

        def wrong(state: FleetState) -> list[str]:
            return [f"{name}: {problem}" for name in names for problem in state.problems_of_running(name)]

        state = FleetState(objects={}, records={}, processes={}, listed={})

        async def look() -> list[str]:
            nonlocal state
            state = await self._fleet.look()
            return wrong(state)

        await eventually(look, lambda problems: not problems, _READY_SECONDS, pause=_LOOK_PAUSE)
        return state

    async def _lay_out(self, operation: Operation) -> None:
        """Find the boundaries of the operation, and make what it is done to."""
        trace = await self._trace(operation)
        assert set(trace) >= ACTIVITIES[operation], f"{operation} does only {sorted(trace)}"
        self.cells = cells_of(operation, trace)
        if operation is not Operation.CREATE:
            self._note_before(await self._prepare([cell.proxy for cell in self.cells]))

    def _note_before(self, state: FleetState) -> None:
        for cell in self.cells:
            body = state.objects[cell.proxy]
            cell.uid, cell.incarnation = body["metadata"]["uid"], body["status"]["incarnation"]

    async def _begin(self, operation: Operation, names: list[str]) -> None:
        if operation is Operation.DELETE:
            await self._system.kubectl.acall("delete", "px", *names, "--wait=false")
        else:
            await self._apply(names, FIRST_PORT if operation is Operation.CREATE else OTHER_PORT)

    async def _trace(self, operation: Operation) -> dict[str, int]:
        """Return how often each activity is called for one Proxy that nothing happens to."""
        description = await (await self._system.workflow("pilot")).describe()
        # A poke that comes late to a deleted object starts a run that has nothing to do.
        handle = await self._system.workflow("pilot", description.run_id)
        begun = description.history_length if operation is not Operation.CREATE else 0
        port = FIRST_PORT if operation is Operation.CREATE else OTHER_PORT
        if operation is not Operation.CREATE:
            await self._begin(operation, ["pilot"])
            await eventually(
                lambda: self._system.get("pilot"),
                lambda body: body == {} if operation is Operation.DELETE else _is_ready(body, port),
                _READY_SECONDS,
            )

        async def rests() -> bool:
            return _rests(await handle.describe())

        await eventually(rests, within=_READY_SECONDS)
        return Counter(
            event.activity_task_scheduled_event_attributes.activity_type.name
            for event in (await handle.fetch_history()).events[begun:]
            if event.event_type == EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED
        )

    # ------------------------------------------------------------------ meanwhile

    async def _until_held(self, operation: Operation) -> None:
        """Wait until every Proxy stands at its gate, or has passed where it never comes to."""

        async def waited_for() -> list[str]:
            for cell in self.cells:
                cell.held = self._gates.reached(cell.proxy)
            missing = [cell for cell in self.cells if not cell.held]
            if all(cell.may_be_missed for cell in missing):
                state = await self._fleet.look()
                self._find_problems(operation, state)
                missing = [cell for cell in missing if cell.problems]
            return [str(cell.boundary) for cell in missing]

        await eventually(waited_for, lambda missing: not missing, _GATES_SECONDS, pause=_LOOK_PAUSE)

    # ------------------------------------------------------------------ afterwards

    async def _until_settled(self, operation: Operation) -> None:
        async def look() -> list[str]:
            self._find_problems(operation, await self._fleet.look())
            return [f"{cell.boundary}: {cell.problems}" for cell in self.cells if cell.problems]

        try:
            await eventually(look, lambda problems: not problems, _SETTLE_SECONDS, pause=_LOOK_PAUSE)
        except AssertionError:
            # What is wrong stands in the cells.
            return
        if operation is not Operation.DELETE:
            await asyncio.gather(*map(self._use, self.cells))

    def _find_problems(self, operation: Operation, state: FleetState) -> None:
        for cell in self.cells:
            if operation is Operation.DELETE:
                cell.problems = state.problems_of_gone(cell.proxy, cell.uid)
                continue
            cell.problems = state.problems_of_running(cell.proxy)
            body = state.objects.get(cell.proxy, {})
            if operation is Operation.REPLACE and body.get("status", {}).get("incarnation") == cell.incarnation:
                cell.problems.append("it was not replaced")

    async def _use(self, cell: Cell) -> None:
        """Lease the very proxy and fetch a page through it."""
        lease = await self._lease(cell.proxy)
        there = lease["proxy"]
        if not await answers_connect(there["ip"], there["port"], self._site.url, self._trust):
            cell.problems.append("it does not answer CONNECT")
        status, _ = await self._crawl("DELETE", f"/v1/leases/{lease['leaseID']}")
        if status != 204:
            cell.problems.append(f"its lease cannot be given back: {status}")

    async def _lease(self, name: str) -> dict[str, Any]:
        status, body = await self._crawl("POST", "/v1/leases", {"selector": {"cell": name}, "ttlSeconds": 600})
        assert status == 201, body
        lease: dict[str, Any] = body
        return lease

    async def _lease_problems(self, lease: Mapping[str, Any]) -> list[str]:
        """Return what became of a lease that was taken before anything died."""
        _, listed = await self._crawl("GET", "/v1/proxies")
        counts = {view["id"].partition("/")[2]: view["activeLeases"] for view in listed["proxies"]}
        taken = {name: count for name, count in counts.items() if count}
        problems = [] if taken == {"steady": 1} else [f"leases are counted as {taken}"]
        status, _ = await self._crawl("POST", f"/v1/leases/{lease['leaseID']}/report", {"result": "ok"})
        return problems if status == 204 else [*problems, f"a lease from before is answered with {status}"]

    async def _crawl(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """Ask the lease API, as a crawler again for as long as it is told to come back later."""

        async def ask() -> tuple[int, Any]:
            # A few at a time: what is proven is that each proxy serves, not how many crawlers do.
            async with (
                self._crawlers,
                self._system.crawler() as crawler,
                crawler.request(method, path, json=body) as answer,
            ):
                return answer.status, await answer.json() if answer.content_type == "application/json" else None

        return await eventually(ask, lambda answer: answer[0] != 503, _ANSWER_SECONDS, pause=1.0)


def _is_ready(body: Mapping[str, Any], port: int) -> bool:
    ready = condition(body, "Ready")
    is_current = ready.get("observedGeneration") == body.get("metadata", {}).get("generation")
    return bool(ready.get("status") == "True" and is_current and body["spec"]["port"] == port)


def _rests(description: WorkflowExecutionDescription) -> bool:
    """Whether a workflow has ended or only probes."""
    if description.status is not WorkflowExecutionStatus.RUNNING:
        return True
    raw = description.raw_description
    under_way = {pending.activity_type.name for pending in raw.pending_activities}
    return under_way == {"watch_health"} and not raw.HasField("pending_workflow_task")
