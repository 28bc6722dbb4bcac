"""Removes everything that a node put on the machine, whether or not its programs still run.

All of it can be told from others': programs have the node's folders in their command lines, containers are in control
groups named by their ids, of which containerd keeps a folder each, mounts lie below the node's folders, and interface
and rules bear its bridge's name.
"""

import contextlib
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import psutil

from app.dev import node_network
from app.dev.commands import run
from app.dev.node_paths import NodePaths
from model.errors import EgressProxiesError

CONTROL_GROUPS = Path("/sys/fs/cgroup")
# Where containerd puts the control groups of a kubelet without a tree for classes of Pods. Other nodes' are there
# too, so this one stays.
_PARENT_GROUP = "k8s.io"
_PROGRAMS = ("containerd", "containerd-shim-runc-v2", "kubelet", "kube-scheduler", "runc", "ctr")
_CNI_RESULTS = Path("/var/lib/cni/results")
_LOG_LINKS = Path("/var/log/containers")
_END_SECONDS = 20.0
_POLL_SECONDS = 0.05


class NodeNotRemovedError(EgressProxiesError):
    """Something of a node could not be removed; the message says what."""


def remove(paths: NodePaths) -> None:
    """Kill what runs, then remove mounts, network, control groups and files; what is not there is passed over.

    Raises:
        NodeNotRemovedError: Something withstands.
        CommandFailedError: A command of the machine failed.
    """
    groups = control_groups(paths)
    _kill_all(paths)
    # Sockets of shims lie outside our folders; their addresses are in them.
    _remove_shim_sockets(paths)
    for mount in mounts(paths):
        run(["umount", "--lazy", mount])
    node_network.tear_down(paths.bridge)
    for group in groups:
        _remove_control_group(group)
    for result in _CNI_RESULTS.glob(f"{paths.bridge}-*"):
        result.unlink(missing_ok=True)
    for link in _LOG_LINKS.glob("*.log"):
        if link.is_symlink() and link.readlink().is_relative_to(paths.state):
            link.unlink(missing_ok=True)
    for folder in paths.disposable:
        if folder.exists():
            shutil.rmtree(folder)


def processes(paths: NodePaths) -> list[psutil.Process]:
    """Return the programs and the Pods' processes of a node."""
    containers = _containers(paths)
    return [process for process in psutil.process_iter() if _belongs(process, paths, containers)]


def mounts(paths: NodePaths) -> list[str]:
    """Return the mount points below the node's folders, the deepest first."""
    points = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    # The kernel writes a space as \040.
    decoded = [point.encode().decode("unicode_escape") for point in points]
    return sorted((point for point in decoded if _is_below(point, paths)), reverse=True)


def control_groups(paths: NodePaths) -> list[Path]:
    """Return the containers' control groups, several of a container where the machine has several hierarchies."""
    names = [f"{_PARENT_GROUP}/{container}" for container in sorted(_containers(paths))]
    found = [group for name in names for group in (CONTROL_GROUPS / name, *CONTROL_GROUPS.glob(f"*/{name}"))]
    return [group for group in found if group.is_dir()]


def _containers(paths: NodePaths) -> set[str]:
    """Return the ids of the containers that containerd knows or has known."""
    folders = (paths.containerd_state, paths.containerd_root)
    tasks = [task for folder in folders for task in folder.glob(f"io.containerd.runtime.v2.task/{_PARENT_GROUP}/*")]
    return {task.name for task in tasks}


def _kill_all(paths: NodePaths) -> None:
    end = time.monotonic() + _END_SECONDS
    while found := processes(paths):
        if time.monotonic() > end:
            raise NodeNotRemovedError(f"{paths.state}: {found} still run after SIGKILL")
        for process in found:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        time.sleep(_POLL_SECONDS)


def _belongs(process: psutil.Process, paths: NodePaths, containers: set[str]) -> bool:
    try:
        if process.status() == psutil.STATUS_ZOMBIE:
            return False
        command = process.cmdline()
        is_program = bool(command) and Path(command[0]).name in _PROGRAMS
        if is_program and any(_names_folder(word, paths) for word in command):
            return True
        groups = Path(f"/proc/{process.pid}/cgroup").read_text()
    except (psutil.NoSuchProcess, FileNotFoundError, ProcessLookupError):
        return False
    # ID:CONTROLLERS:/k8s.io/CONTAINER, and what a container makes below.
    return any(not containers.isdisjoint(line.split("/")) for line in groups.splitlines())


def _names_folder(word: str, paths: NodePaths) -> bool:
    return any(f"{folder}/" in word for folder in (paths.state, paths.run))


def _is_below(point: str, paths: NodePaths) -> bool:
    return any(Path(point).is_relative_to(folder) for folder in (paths.state, paths.run))


def _remove_shim_sockets(paths: NodePaths) -> None:
    for address in paths.containerd_state.glob("io.containerd.runtime.v2.task/*/*/address"):
        Path(address.read_text().removeprefix("unix://")).unlink(missing_ok=True)


def _remove_control_group(group: Path) -> None:
    end = time.monotonic() + _END_SECONDS
    for folder in (*_deepest_first(group), group):
        while folder.exists():
            try:
                folder.rmdir()
            except OSError as error:
                # The kernel still counts a process that has just been killed.
                if time.monotonic() > end:
                    raise NodeNotRemovedError(f"control group {folder}: {error}") from error
                time.sleep(_POLL_SECONDS)


def _deepest_first(group: Path) -> Iterator[Path]:
    yield from sorted((path for path in group.rglob("*") if path.is_dir()), reverse=True)
