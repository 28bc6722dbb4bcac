"""Linux processes told apart beyond doubt: a pid alone is reused, so every look and every signal checks the start time.

Source of the facts: proc(5) (``/proc/<pid>/stat`` fields 3 and 22, ``/proc/<pid>/cmdline``, ``/proc/<pid>/net/tcp``)
and pidfd_open(2).
"""

import os
import signal
import socket
import sys
from dataclasses import dataclass
from pathlib import Path

_STATE = 0
_START_TIME = 19
"""Positions after the command name, which is in parentheses and may hold any character."""
_DEAD_STATES = "ZXx"
_INODE_COLUMN = 9
_LISTEN = "0A"
_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class ProcessIdentity:
    """One process for all time.

    Attributes:
        pid: Its id while it runs.
        start_ticks: When it started, in clock ticks since boot.
        boot_id: Which boot of the machine.
    """

    pid: int
    start_ticks: int
    boot_id: str


def boot_id() -> str:
    """Return the id of this boot of the machine."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def identify(pid: int) -> ProcessIdentity | None:
    """Return who runs under that pid now, or None; a zombie is dead, and reaped when it is our child."""
    fields = _stat(pid)
    if fields is None:
        return None
    if fields[_STATE] in _DEAD_STATES:
        _reap(pid)
        return None
    return ProcessIdentity(pid, int(fields[_START_TIME]), boot_id())


def is_alive(identity: ProcessIdentity) -> bool:
    """Tell whether exactly this process still runs."""
    return identify(identity.pid) == identity


def age(identity: ProcessIdentity) -> float:
    """Return how long ago the process started, in seconds; unmoved by changes of the wall clock."""
    uptime = float(Path("/proc/uptime").read_text().split()[0])
    return max(0.0, uptime - identity.start_ticks / _TICKS_PER_SECOND)


def find_by_last_arguments(arguments: list[str]) -> ProcessIdentity | None:
    """Return the process whose command line ends in these arguments."""
    wanted = [os.fsencode(argument) for argument in arguments]
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            given = Path("/proc", name, "cmdline").read_bytes().rstrip(b"\0").split(b"\0")
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue
        if given[-len(wanted) :] == wanted and (identity := identify(int(name))) is not None:
            return identity
    return None


def listens(identity: ProcessIdentity, address: str, port: int) -> bool:
    """Tell whether exactly this process accepts TCP connections there.

    A connection would not tell whose port it is: another program may have been faster, and then ours is about to end.
    """
    folder = Path("/proc", str(identity.pid))
    try:
        inodes = _listening_inodes((folder / "net" / "tcp").read_text(), address, port)
        links = [os.readlink(folder / "fd" / name) for name in os.listdir(folder / "fd")] if inodes else []
    except (FileNotFoundError, ProcessLookupError):
        return False
    return is_alive(identity) and any(f"socket:[{inode}]" in links for inode in inodes)


def send(identity: ProcessIdentity, number: signal.Signals) -> bool:
    """Send a signal to exactly this process.

    Returns:
        Whether the process was there to get it.

    Raises:
        PermissionError: It belongs to a user we may not signal.
    """
    try:
        descriptor = os.pidfd_open(identity.pid)
    except ProcessLookupError:
        return False
    try:
        # The descriptor holds on to one process, so the check stays true until the signal is sent.
        if not is_alive(identity):
            return False
        signal.pidfd_send_signal(descriptor, number)
        return True
    except ProcessLookupError:
        return False
    finally:
        os.close(descriptor)


def _listening_inodes(table: str, address: str, port: int) -> set[str]:
    """Return the sockets in LISTEN on that address; ``table`` is in the format of ``/proc/net/tcp``."""
    local = f"{int.from_bytes(socket.inet_aton(address), sys.byteorder):08X}:{port:04X}"
    rows = (line.split() for line in table.splitlines() if local in line)
    return {row[_INODE_COLUMN] for row in rows if row[1] == local and row[3] == _LISTEN}


def _stat(pid: int) -> list[str] | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    return text.rpartition(")")[2].split()


def _reap(pid: int) -> None:
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return
