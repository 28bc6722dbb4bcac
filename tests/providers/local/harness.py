"""The ``local`` provider in the conformance suite: a box with real processes, broken at its system calls."""

import asyncio
import contextlib
import multiprocessing
import os
import shutil
import signal
from collections.abc import AsyncIterator, Sequence
from typing import Any

from model.errors import NotFoundError
from model.instance import Instance
from model.proxy import Placement
from providers.conformance import (
    CLOUD_INIT_SENTINEL,
    THEIRS,
    Fault,
    FaultPoint,
    FaultWay,
    Operation,
    ProviderHarness,
    Stranger,
    perform,
)
from providers.contract import CreateRequest, Provider
from tests.providers.local.boxes import TestBox, shared_memory
from tests.providers.local.system_calls import Tap, tapped

FIRST_USE = """
mkdir instances, mkdir ., mkdir instances #2, mkdir trash, open lock, flock lock, listdir ., read box-id,
open .box-id*, fsync .box-id*, replace .box-id*, open ., fsync .
"""
LATER_USE = "mkdir instances, mkdir trash, open lock, flock lock, listdir ., read box-id"
SECOND_LOCK = "open lock #2, flock lock #2, read instance.json"
WRITE_AGAIN = """
mkdir <instance> #2, open .instance.json* #2, fsync .instance.json* #2, replace .instance.json* #2, open <instance> #2,
fsync <instance> #2
"""
WRITE_RECORD = WRITE_AGAIN.replace(" #2", "")
RESERVE = "open .addresses.json*, fsync .addresses.json*, replace .addresses.json*"
START = "write config-*, open proxy.log, posix_spawn"
AFTER_ITS_END = "after its end: "


def _steps(*groups: str) -> list[str]:
    return [step.strip() for group in groups for step in group.split(",")]


STEPS: dict[Operation, list[str]] = {
    Operation.CREATE: _steps(
        FIRST_USE,
        SECOND_LOCK,
        "listdir instances, read addresses.json, bind, listen",
        RESERVE,
        "open . #2, fsync . #2",
        WRITE_RECORD,
        START,
        WRITE_AGAIN,
    ),
    Operation.FIND: _steps(LATER_USE, "read instance.json"),
    Operation.GET: _steps(LATER_USE, "read instance.json"),
    Operation.LIST: _steps(LATER_USE, "listdir instances, read instance.json"),
    Operation.DELETE: [
        *_steps(LATER_USE, "read box-id #2", SECOND_LOCK, WRITE_RECORD, "pidfd_open, pidfd_send_signal"),
        *(
            AFTER_ITS_END + step
            for step in _steps("read addresses.json", RESERVE, "open ., fsync ., rename <instance>, listdir trash")
        ),
    ],
}
"""Every system call of a box that the operation makes on its state, its processes and its addresses, in order."""

_BLOCKING = ("flock", "fsync", "replace", "posix_spawn", "rename", "pidfd_send_signal")
_CHANGING = (
    "mkdir",
    "open",
    "write",
    "fsync",
    "replace",
    "rename",
    "posix_spawn",
    "pidfd_send_signal",
    "flock",
    "bind",
)


def fault_points(wanted: Sequence[str] = ()) -> list[FaultPoint]:
    """Return every step with the ways in which it can break; with ``wanted``, only those calls' steps."""
    points = []
    for operation, steps in STEPS.items():
        for step in steps:
            call = step.removeprefix(AFTER_ITS_END)
            if not wanted or call.startswith(tuple(wanted)):
                points += [FaultPoint(operation, step, way) for way in _ways(operation, call)]
    return points


def _ways(operation: Operation, call: str) -> list[FaultWay]:
    ways = [FaultWay.REFUSED]
    if call.startswith("read "):
        ways.append(FaultWay.RUBBISH)
    if call.startswith(_BLOCKING):
        ways.append(FaultWay.HANGS)
    if operation in (Operation.CREATE, Operation.DELETE):
        ways.append(FaultWay.PROCESS_DIES)
        if call.startswith(_CHANGING):
            ways.append(FaultWay.ANSWER_LOST)
    return ways


class LocalHarness(ProviderHarness):
    """One box."""

    takes_cloud_init = False
    malformed_ids = ("", "local", "local//proxy-a", "local/aaaaaaaaaaaaaaaa/../x", "gcp/z/proxy-a", "local/x/y\n")
    deadline_seconds = 1.0

    def __init__(self, box: TestBox) -> None:
        self.name = f"local ({box.software})"
        self._box = box

    def provider(self) -> Provider:
        return self._box.provider()

    def request(self, uid: str = "uid-a", **changes: Any) -> CreateRequest:
        return super().request(uid, **{"port": self._box.port, **changes})

    def impossible_requests(self) -> Sequence[tuple[CreateRequest, str]]:
        return [
            (self.request(placement=Placement(zone="a")), "spec.placement.zone"),
            (self.request(placement=Placement(image="b")), "spec.placement.image"),
            (self.request(cloud_init=CLOUD_INIT_SENTINEL), "spec.cloudInit"),
            (self.request(port=0), "spec.port"),
        ]

    async def stop(self, instance: Instance) -> None:
        os.kill(self._box.record(instance.name)["process"]["pid"], signal.SIGKILL)

    async def vanish(self, instance: Instance) -> None:
        self._box.kill_processes()
        shutil.rmtree(self._box.record_file(instance.name).parent)

    async def make_strangers(self, instance: Instance, stranger: Stranger) -> None:
        changes: dict[Stranger, dict[str, Any]] = {
            Stranger.OTHER_UID: {"uid": "uid-of-somebody"},
            Stranger.OTHER_INSTALLATION: {"installation": THEIRS},
            Stranger.UNMARKED: {"managed": False, "uid": "", "installation": "", "spec_hash": ""},
            Stranger.OF_THE_REFERENCE: {"installation": "", "spec_hash": ""},
        }
        self._box.edit_record(instance.name, **changes[stranger])

    async def instances_of(self, name: str) -> int:
        return max(len(self._box.processes(name)), int(self._box.record_file(name).exists()))

    async def leftovers(self, name: str) -> Sequence[str]:
        state_dir = self._box.state_dir
        folder = state_dir / "instances" / name
        temporary = [path for path in state_dir.glob(".*") if path.is_file()]
        found = [*temporary, *(state_dir / "trash").glob("*"), *([folder] if folder.exists() else [])]
        segments = [segment for incarnation in self._incarnations(name) for segment in shared_memory(incarnation)]
        return [str(path) for path in (*found, *segments)]

    def _incarnations(self, name: str) -> list[str]:
        configs = self._box.state_dir.glob(f"instances/{name}/config-*")
        return [path.name.removeprefix("config-") for path in configs]

    @contextlib.asynccontextmanager
    async def broken(self, point: FaultPoint) -> AsyncIterator[Fault]:
        step = self._reach(point.step)
        with tapped(LocalTap(self._box.state_dir, step, point.way)) as tap:
            yield tap.fault

    async def die_at(self, point: FaultPoint, subject: CreateRequest | Instance) -> None:
        step = self._reach(point.step)
        process = _CONTEXT.Process(target=_die, args=(self._box, step, point.operation, subject))
        process.start()
        await asyncio.to_thread(process.join, 30)
        assert process.exitcode == -signal.SIGKILL, f"{point} was never reached: {process.exitcode}"
        process.close()

    def _reach(self, step: str) -> str:
        """Bring the box to where the step is about to come, and return the step itself."""
        if not step.startswith(AFTER_ITS_END):
            return step
        # A process that has ended by itself: one that a delete has asked to end may end before the delete returns.
        self._box.kill_processes()
        return step.removeprefix(AFTER_ITS_END)

    @contextlib.asynccontextmanager
    async def backend_down(self) -> AsyncIterator[None]:
        away = self._box.state_dir.with_suffix(".away")
        there = self._box.state_dir.exists()
        if there:
            self._box.state_dir.rename(away)
        self._box.state_dir.write_text("a file where the box's folder was")
        try:
            yield
        finally:
            self._box.state_dir.unlink()
            if there:
                away.rename(self._box.state_dir)


class LocalTap(Tap):
    """Names the folder of the instance "<instance>"."""

    def name(self, path: Any) -> str:
        name = super().name(path)
        return "<instance>" if name.startswith("proxy-") else name


_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload([__name__])


def _die(box: TestBox, step: str, operation: Operation, subject: CreateRequest | Instance) -> None:
    async def call() -> None:
        with contextlib.suppress(NotFoundError):
            await perform(box.provider(), operation, subject)

    with tapped(LocalTap(box.state_dir, step, FaultWay.PROCESS_DIES)):
        asyncio.run(call())
