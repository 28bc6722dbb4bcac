"""What a test kills, and what a supervisor does afterwards."""

import asyncio
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import psutil
from temporalio.service import RPCError, RPCStatusCode

from app.dev.kubernetes import ControlPlane
from app.dev.processes import ChildProcess
from app.dev.temporal import TemporalServer
from tests.e2e.system import System
from tests.support.kubectl import Kubectl


class Victim(Protocol):
    """Something that dies and is started again."""

    async def kill(self, held: list[str]) -> None:
        """End it and wait until it is dead; ``held`` are the Proxies whose workflows stand at a gate."""

    async def restart(self) -> None:
        """Start it again."""


class OwnProcess:
    """A worker or watcher of ours."""

    def __init__(self, start: Callable[[], "subprocess.Popen[bytes]"]) -> None:
        self._start = start
        self._process = start()

    async def kill(self, held: list[str]) -> None:
        self._process.kill()
        assert await asyncio.to_thread(self._process.wait, 30) == -9

    async def restart(self) -> None:
        self._process = self._start()


class ApiServer:
    """kube-apiserver alone; etcd goes on."""

    def __init__(self, control_plane: ControlPlane) -> None:
        (self._child,) = [child for child in control_plane.children if child.name == "kube-apiserver"]
        self._kubectl = Kubectl(control_plane.kubeconfig)
        self._command: list[str | Path] = [*psutil.Process(self._child.pid).cmdline()]

    async def kill(self, held: list[str]) -> None:
        assert await self._child.kill() == -9

    async def restart(self) -> None:
        self._child = await ChildProcess.start(
            "kube-apiserver", self._command, self._child.log_path, ready=self._is_ready
        )

    async def stop(self) -> None:
        await self._child.stop()

    async def _is_ready(self) -> bool:
        return (await self._kubectl.arun("get", "--raw", "/readyz", timeout=10)).returncode == 0


class Temporal:
    """The Temporal server."""

    def __init__(self, server: TemporalServer) -> None:
        self._server = server

    async def kill(self, held: list[str]) -> None:
        await self._server.kill()

    async def restart(self) -> None:
        await self._server.start()


class Workflows:
    """The workflows of the Proxies, terminated by a human; the watcher starts them again."""

    def __init__(self, system: System) -> None:
        self._system = system

    async def kill(self, held: list[str]) -> None:
        await asyncio.gather(*map(self._terminate, held))

    async def restart(self) -> None:
        """Nobody does anything."""

    async def _terminate(self, proxy: str) -> None:
        try:
            await (await self._system.workflow(proxy)).terminate("by hand")
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:
                raise
