"""One process killed at every boundary of one operation: a Proxy per boundary, all of them held when it dies."""

import asyncio
import secrets
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

from temporalio.api.enums.v1 import EventType

from model.instance import InstanceState
from tests.e2e.fleet_state import Fleet, FleetState, answers_connect
from tests.e2e.gates import Boundary, Gates
from tests.e2e.polling import eventually
from tests.e2e.system import System, condition
from tests.e2e.victims import Victim
from tests.probing.servers import Origin
from tests.support.kubectl import proxy

FIRST_PORT, OTHER_PORT = 3128, 3129
_DRAIN_SECONDS = 5
_MAYBE = "await_instance"
"""Comes to pass unless a proxy serves before its create has returned."""
_READY_SECONDS = 150.0
_GATES_SECONDS = 120.0
_SETTLE_SECONDS = 180.0


class Operation(StrEnum):
    """What is under way when something dies."""

    CREATE = "create"
    REPLACE = "replace"
    DELETE = "delete"


_ALWAYS = {"read_proxy", "write_status", "tell_broker"}
_MAKING = {"create_instance", "record_spec_hash", "watch_health"}
ACTIVITIES = {
    Operation.CREATE: _ALWAYS | _MAKING | {"add_finalizer", "look_for_instance"},
    Operation.REPLACE: _ALWAYS | _MAKING | {"drain_proxy", "remove_instance"},
    Operation.DELETE: _ALWAYS | {"remove_instance", "look_for_instance", "release_finalizers"},
}
"""What an operation does at least; what else it does is found by watching one."""


@dataclass
class Cell:
    """One boundary, the Proxy that is held there, and what became of it."""

    boundary: Boundary
    proxy: str
    uid: str = ""
    incarnation: str = ""
    held: bool = False
    problems: list[str] = field(default_factory=list)

    @property
    def may_be_missed(self) -> bool:
        """Whether it depends on the order of events if it comes to that."""
        return self.boundary.occurrence > 1 or self.boundary.activity == _MAYBE

    @property
    def result(self) -> str:
        if self.problems:
            return "; ".join(self.problems)
        return "ok" if self.held else "ok, did not come to it"


class KillMatrix:
    """The cells of one operation, in a system whose worker is stopped at gates."""

    def __init__(self, system: System, site: Origin, gates: Gates, trust: Path) -> None:
        self._system = system
        self._site = site
        self._gates = gates
        self._trust = trust
        network = f"127.{secrets.randbelow(100) + 20}.{secrets.randbelow(256)}.0/24"
        self._fleet = Fleet(system, IPv4Network(network))
        self.cells: list[Cell] = []

    async def run(self, operation: Operation, victim: Victim) -> list[str]:
        """Kill the victim while a Proxy stands at each boundary; return what is wrong afterwards, a line each."""
        system = self._system
        stranger = await self._fleet.invite_stranger()
        before = await self._prepare(["steady", "pilot"])
        lease = await self._lease("steady")
        trace = await self._trace(operation)
        assert set(trace) >= ACTIVITIES[operation], f"{operation} does only {sorted(trace)}"
        if operation is not Operation.DELETE:
            trace.setdefault(_MAYBE, 1)
        self.cells = [
            Cell(boundary, boundary.name)
            for activity, count in sorted(trace.items())
            for boundary in _boundaries(activity, count)
        ]
        if operation is not Operation.CREATE:
            self._note_before(await self._prepare([cell.proxy for cell in self.cells]))
        for cell in self.cells:
            self._gates.set(cell.proxy, cell.boundary)
        await self._begin(operation, [cell.proxy for cell in self.cells])
        await self._until_held(operation)
        await victim.kill([cell.proxy for cell in self.cells if cell.held])
        self._gates.open()
        await victim.restart()

        await self._until_settled(operation)
        problems = [f"{cell.boundary}: {cell.result}" for cell in self.cells if cell.problems]
        problems += [f"{cell.boundary}: not reached" for cell in self.cells if not cell.held and not cell.may_be_missed]
        if await self._fleet.stranger_now(stranger) != (stranger.incarnation, InstanceState.RUNNING):
            problems.append("the stranger's instance was touched")
        after = (await system.get("steady"))["status"]
        if after["incarnation"] != before.objects["steady"]["status"]["incarnation"]:
            problems.append("an instance that nobody did anything to was replaced")
        return problems + await self._lease_problems(lease)

    # ------------------------------------------------------------------ before

    def _object(self, name: str, port: int) -> dict[str, Any]:
        check = {"probeURL": self._site.url, "intervalSeconds": 2, "timeoutSeconds": 5}
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

        await eventually(look, lambda problems: not problems, _READY_SECONDS)
        return state

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
        handle = await self._system.workflow("pilot")
        begun = (await handle.describe()).history_length if operation is not Operation.CREATE else 0
        port = FIRST_PORT if operation is Operation.CREATE else OTHER_PORT
        if operation is not Operation.CREATE:
            await self._begin(operation, ["pilot"])
            await eventually(
                lambda: self._system.get("pilot"),
                lambda body: body == {} if operation is Operation.DELETE else _is_ready(body, port),
                _READY_SECONDS,
            )
        lengths: list[int] = []

        async def rests() -> bool:
            lengths.append((await handle.describe()).history_length)
            return lengths[-8:].count(lengths[-1]) == 8

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

        await eventually(waited_for, lambda missing: not missing, _GATES_SECONDS)

    # ------------------------------------------------------------------ afterwards

    async def _until_settled(self, operation: Operation) -> None:
        async def look() -> list[str]:
            self._find_problems(operation, await self._fleet.look())
            return [f"{cell.boundary}: {cell.problems}" for cell in self.cells if cell.problems]

        try:
            await eventually(look, lambda problems: not problems, _SETTLE_SECONDS)
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
        async with self._system.crawler() as crawler, crawler.delete(f"/v1/leases/{lease['leaseID']}") as answer:
            if answer.status != 204:
                cell.problems.append(f"its lease cannot be given back: {answer.status}")

    async def _lease(self, name: str) -> dict[str, Any]:
        wish = {"selector": {"cell": name}, "ttlSeconds": 600}
        async with self._system.crawler() as crawler, crawler.post("/v1/leases", json=wish) as answer:
            body: dict[str, Any] = await answer.json()
            assert answer.status == 201, body
            return body

    async def _lease_problems(self, lease: Mapping[str, Any]) -> list[str]:
        """Return what became of a lease that was taken before anything died."""
        listed = await self._system.list_proxies()
        counts = {name: view["activeLeases"] for name, view in listed.items() if view["activeLeases"]}
        problems = [] if counts == {"steady": 1} else [f"leases are counted as {counts}"]
        report = self._system.crawler()
        async with report as crawler, crawler.post(f"/v1/leases/{lease['leaseID']}/report", json={"result": "ok"}) as a:
            return problems if a.status == 204 else [*problems, f"a lease from before is answered with {a.status}"]


def _boundaries(activity: str, count: int) -> list[Boundary]:
    return [Boundary(activity, occurrence, side) for occurrence in range(1, count + 1) for side in ("before", "after")]


def _is_ready(body: Mapping[str, Any], port: int) -> bool:
    ready = condition(body, "Ready")
    is_current = ready.get("observedGeneration") == body.get("metadata", {}).get("generation")
    return bool(ready.get("status") == "True" and is_current and body["spec"]["port"] == port)


def table(operation: Operation, victim: str, cells: list[Cell]) -> str:
    """Return the results as text, a line per cell."""
    width = max((len(str(cell.boundary)) for cell in cells), default=0)
    lines = [f"  {cell.boundary!s:{width}}  {cell.result}" for cell in cells]
    held = sum(cell.held for cell in cells)
    return "\n".join([f"{operation}, {victim} killed: {held} of {len(cells)} boundaries held", *lines])
