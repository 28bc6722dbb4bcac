"""Which nodes there are on this machine: each has a number, and with it a bridge and a network.

The owner of a node holds a lock on the number's file. The kernel gives the lock back however the owner ends, so a file
with content that nobody holds belongs to a node whose owner died: its leftovers are removed by whoever comes next.
"""

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator
from pathlib import Path

from app.dev import node_leftovers, node_network
from app.dev.node_paths import NodePaths
from model.errors import ConfigurationError

SLOTS = Path("/run/egress-proxies/nodes")
_NUMBERS = range(1, 255)


class NodeSlot:
    """One number, held until ``release`` or the end of this process."""

    def __init__(self, paths: NodePaths, file: int) -> None:
        self.paths = paths
        self._file = file

    def release(self) -> None:
        """Give the number back; the node's leftovers must be gone."""
        with _machine_lock():
            _slot_file(self.paths.number).unlink()
            os.close(self._file)


def claim(state_directory: Path) -> NodeSlot:
    """Remove what dead owners left on the machine, and take a number whose bridge and network are free.

    Args:
        state_directory: The node's folder, absolute.

    Raises:
        ConfigurationError: Another node lives in the folder, or no number is free.
        NodeNotRemovedError: A leftover withstands.
        CommandFailedError: A command of the machine failed.
    """
    with _machine_lock():
        for number in _known():
            _bury_or_refuse(number, state_directory)
        for number in _NUMBERS:
            paths = NodePaths(number=number, state=state_directory, run=SLOTS / str(number))
            if node_network.bridge_exists(paths.bridge) or node_network.in_use(paths.network):
                continue
            file = _hold(number)
            if file is not None:
                os.truncate(file, 0)
                os.pwrite(file, json.dumps({"state": str(state_directory)}).encode(), 0)
                return NodeSlot(paths, file)
    raise ConfigurationError("no network between 10.214.1.0/24 and 10.214.254.0/24 is free: stop other nodes")


def _bury_or_refuse(number: int, state_directory: Path) -> None:
    """Remove the leftovers of a dead node; a living one must not be in our folder."""
    state = _state_of(number)
    file = _hold(number)
    if file is None:
        if state == state_directory:
            raise ConfigurationError(f"another node runs in {state}: wait for its end, or give another folder")
        return
    try:
        if state is not None:
            node_leftovers.remove(NodePaths(number=number, state=state, run=SLOTS / str(number)))
        _slot_file(number).unlink()
    finally:
        os.close(file)


def _known() -> list[int]:
    return sorted(int(path.stem) for path in SLOTS.glob("*.json"))


def _state_of(number: int) -> Path | None:
    text = _slot_file(number).read_text()
    return Path(json.loads(text)["state"]) if text else None


def _slot_file(number: int) -> Path:
    return SLOTS / f"{number}.json"


def _hold(number: int) -> int | None:
    file = os.open(_slot_file(number), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(file)
        return None
    return file


@contextlib.contextmanager
def _machine_lock() -> Iterator[None]:
    SLOTS.mkdir(parents=True, exist_ok=True, mode=0o700)
    with (SLOTS / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
