"""A real Kubernetes node on this machine: containerd, the kubelet and the scheduler, for a control plane of ours."""

import asyncio
import ssl
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ParamSpec, TypeVar
from urllib.parse import urlsplit

import aiohttp

from app.dev import node_config, node_leftovers, node_network, node_slots
from app.dev.binaries import NodeBinaries
from app.dev.commands import run
from app.dev.kubernetes import ControlPlane, answers_ok, client_context, render_kubeconfig
from app.dev.node_paths import NodePaths
from app.dev.node_pki import NodePki, issue_node_pki
from app.dev.node_slots import NodeSlot
from app.dev.pki import Pki, ensure_pki, write_private
from app.dev.processes import ChildProcess, ReadyCheck
from model.errors import ConfigurationError

_P = ParamSpec("_P")
_T = TypeVar("_T")

NODE_NAME = "node"
_READY_SECONDS = 60.0
_IMPORT_SECONDS = 120.0
_REQUEST_SECONDS = 5.0
# The kubelet puts sockets 34 bytes further down, and a socket's path may have 107 bytes.
_LONGEST_STATE_DIRECTORY = 72


class Node:
    """A node that leaves nothing behind: neither after ``stop``, nor, once another node starts, after a kill -9.

    Pods reach the machine at the node's address, each other, and the API server at 10.0.0.1:443. They do not reach the
    internet.

    Attributes:
        name: Of the Node object.
        state_directory: Configuration and logs; images and volumes while it runs.
    """

    def __init__(
        self, control_plane: ControlPlane, state_directory: Path, binaries: NodeBinaries, images: Sequence[Path]
    ) -> None:
        """Prepare a node; nothing runs yet.

        Args:
            control_plane: Must run, with its controller manager, and outlive the node.
            state_directory: A folder of its own, whose absolute path has at most 72 bytes.
            binaries: The programs of Kubernetes; containerd and the others are Debian's.
            images: Archives of the images that Pods may use, ``app.dev.images.PAUSE_IMAGE`` among them.

        Raises:
            ConfigurationError: The folder's path is too long.
        """
        self.name = NODE_NAME
        self.state_directory = state_directory.absolute()
        if len(str(self.state_directory).encode()) > _LONGEST_STATE_DIRECTORY:
            raise ConfigurationError(
                f"the node's folder {self.state_directory} has a path of more than {_LONGEST_STATE_DIRECTORY} bytes, "
                "too long for the sockets in it: choose a shorter one"
            )
        self._control_plane = control_plane
        self._binaries = binaries
        self._images = images
        self._slot: NodeSlot | None = None
        self._children: list[ChildProcess] = []

    @property
    def paths(self) -> NodePaths:
        """Names and folders on this machine, while it runs.

        Raises:
            ConfigurationError: It does not run.
        """
        if self._slot is None:
            raise ConfigurationError(f"the node in {self.state_directory} does not run")
        return self._slot.paths

    @property
    def address(self) -> str:
        """Where Pods reach this machine, while it runs."""
        return str(self.paths.gateway.ip)

    @property
    def children(self) -> tuple[ChildProcess, ...]:
        """The running programs, in the order of their start."""
        return tuple(self._children)

    async def start(self) -> None:
        """Remove what dead nodes left on the machine, start the programs, and wait until Pods can be placed.

        Raises:
            ConfigurationError: Another node runs in the folder, or the control plane does not run.
            CommandFailedError: The machine refuses a bridge, a rule or an image.
            ProcessFailedError: A program did not become ready; nothing is left running.
        """
        try:
            await _to_its_end(self._claim)
            await self._start()
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """Stop the programs, kill the Pods' containers, and remove mounts, network, control groups and folders."""
        while self._children:
            await self._children[-1].stop()
            self._children.pop()
        if self._slot is not None:
            await _to_its_end(self._remove, self._slot)

    def _claim(self) -> None:
        self._slot = node_slots.claim(self.state_directory)

    def _remove(self, slot: NodeSlot) -> None:
        node_leftovers.remove(slot.paths)
        slot.release()
        self._slot = None

    async def _start(self) -> None:
        pki, node_pki = await _to_its_end(self._prepare)
        await self._start_containerd()
        for image in self._images:
            await _to_its_end(run, self._ctr("images", "import", str(image)), _IMPORT_SECONDS)
        await self._start_scheduler(node_pki)
        await self._start_kubelet(pki)

    def _prepare(self) -> tuple[Pki, NodePki]:
        """Write every file and set up the network."""
        paths, state = self.paths, self.state_directory
        for folder in (state, state / "cni", paths.run, paths.pod_logs):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        pki = ensure_pki(self._control_plane.pki_directory)
        node_pki = issue_node_pki(state / "pki", pki.authority, self.name, paths.gateway.ip)
        for program, client in (("kubelet", node_pki.kubelet), ("scheduler", node_pki.scheduler)):
            config = render_kubeconfig(self._control_plane.server, pki.authority, client)
            write_private(state / f"{program}.kubeconfig", config)
        (state / "containerd.toml").write_text(node_config.containerd(paths, state / "cni"))
        (state / "cni" / "10-node.conflist").write_text(node_config.cni(paths))
        kubelet = node_config.kubelet(paths, pki.authority.certificate, node_pki.kubelet)
        (state / "kubelet.yaml").write_text(kubelet)
        port = urlsplit(self._control_plane.server).port
        if port is None:
            raise ConfigurationError("the control plane does not run: start it before its node")
        node_network.set_up(paths.bridge, paths.gateway, port)
        return pki, node_pki

    async def _start_containerd(self) -> None:
        async def ready() -> bool:
            await asyncio.to_thread(run, self._ctr("version"), _REQUEST_SECONDS)
            return True

        await self._start_child(
            "containerd", ["containerd", "--config", self.state_directory / "containerd.toml"], ready
        )

    async def _start_scheduler(self, pki: NodePki) -> None:
        kubeconfig = self.state_directory / "scheduler.kubeconfig"
        command: list[str | Path] = [
            self._binaries.kube_scheduler,
            f"--kubeconfig={kubeconfig}",
            f"--authentication-kubeconfig={kubeconfig}",
            f"--authorization-kubeconfig={kubeconfig}",
            # The node's address is ours alone, so the usual ports are free there.
            f"--bind-address={self.address}",
            f"--tls-cert-file={pki.kubelet.certificate}",
            f"--tls-private-key-file={pki.kubelet.key}",
            "--leader-elect=false",
            "--profiling=false",
        ]
        context = await self._context()

        async def ready() -> bool:
            return await answers_ok(f"https://{self.address}:10259/healthz", context)

        await self._start_child("kube-scheduler", command, ready)

    async def _start_kubelet(self, pki: Pki) -> None:
        command: list[str | Path] = [
            self._binaries.kubelet,
            f"--config={self.state_directory / 'kubelet.yaml'}",
            f"--kubeconfig={self.state_directory / 'kubelet.kubeconfig'}",
            f"--root-dir={self.paths.kubelet}",
            f"--hostname-override={self.name}",
            f"--node-ip={self.address}",
        ]
        url = f"{self._control_plane.server}/api/v1/nodes/{self.name}"
        context = await self._context()
        # Kubernetes writes times in whole seconds.
        started = datetime.now(UTC).replace(microsecond=0)

        async def ready() -> bool:
            timeout = aiohttp.ClientTimeout(total=_REQUEST_SECONDS)
            async with aiohttp.ClientSession(timeout=timeout) as session, session.get(url, ssl=context) as response:
                return response.status == 200 and takes_pods(await response.json(), started)

        await self._start_child("kubelet", command, ready)

    async def _start_child(self, name: str, command: list[str | Path], ready: ReadyCheck) -> None:
        log_path = self.state_directory / "logs" / f"{name}.log"
        self._children.append(await ChildProcess.start(name, command, log_path, ready=ready, deadline=_READY_SECONDS))

    async def _context(self) -> ssl.SSLContext:
        return await asyncio.to_thread(lambda: client_context(ensure_pki(self._control_plane.pki_directory)))

    def _ctr(self, *arguments: str) -> list[str]:
        return ["ctr", f"--address={self.paths.socket}", "--namespace=k8s.io", *arguments]


async def _to_its_end(function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
    """Run a blocking function in a thread, and end with it also when cancelled: it would go on behind our back."""
    work = asyncio.ensure_future(asyncio.to_thread(function, *args, **kwargs))
    try:
        return await asyncio.shield(work)
    finally:
        await asyncio.wait({work})


def takes_pods(node: dict[str, Any], since: datetime) -> bool:
    """Whether a Node object says that Pods can be placed, and its kubelet has said so since a moment.

    An object of an earlier run still says Ready until the controller manager misses its kubelet.
    """
    ready = [condition for condition in node["status"].get("conditions", []) if condition["type"] == "Ready"]
    return not node["spec"].get("taints") and any(
        condition["status"] == "True" and datetime.fromisoformat(condition["lastHeartbeatTime"]) >= since
        for condition in ready
    )
