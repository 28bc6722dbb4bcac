"""Breaks one system call of a box: every step of its conversation with the disk and the kernel.

The calls of this process are wrapped where the standard library makes them. Only those made on behalf of whoever
entered ``tapped`` are looked at, in whatever thread: a thread of ``asyncio.to_thread`` has its caller's context.
"""

import builtins
import contextlib
import errno
import fcntl
import io
import os
import re
import signal
import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from providers.conformance import Fault, FaultWay

HANG_SECONDS = 30.0
RUBBISH = b'\xff{"not": what was written'
_RANDOM = re.compile(r"\.?[0-9a-f]{16}")


@dataclass
class Tap:
    """What happens to the calls: they are noted, and the one named ``step`` breaks.

    ``step`` is ``<call> <what on>``, with ``#2`` for the second of that name and so on.
    """

    state_dir: Path
    step: str = ""
    way: FaultWay | None = None
    fault: Fault = field(default_factory=Fault)
    steps: list[str] = field(default_factory=list)
    released: threading.Event = field(default_factory=threading.Event)
    _seen: Counter[str] = field(default_factory=Counter)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def is_due(self, call: str, subject: str) -> bool:
        """Note a step, and tell whether it is the one that breaks."""
        label = f"{call} {subject}".strip()
        with self._lock:
            self._seen[label] += 1
            if self._seen[label] > 1:
                label += f" #{self._seen[label]}"
            self.steps.append(label)
            if label != self.step or self.fault.happened:
                return False
            self.fault.happened = True
            return True

    def perform(self, original: Callable[[], Any], number: int) -> Any:
        """Perform the call that is due, broken."""
        failure = OSError(number, os.strerror(number))
        if self.way is FaultWay.PROCESS_DIES:
            os.kill(os.getpid(), signal.SIGKILL)
        if self.way is FaultWay.HANGS:
            self.released.wait(HANG_SECONDS)
        if self.way is FaultWay.ANSWER_LOST:
            answer = original()
            if isinstance(answer, io.IOBase):
                answer.close()
            raise failure
        if self.way is FaultWay.REFUSED:
            raise failure
        if self.way is FaultWay.RUBBISH:
            return io.BytesIO(RUBBISH)
        return original()

    def name(self, path: Any) -> str:
        """Return what a path or descriptor is called in steps, or "" for what is none of the box's."""
        if isinstance(path, int):
            path = os.readlink(f"/proc/self/fd/{path}")
        text = os.fsdecode(path)
        if text == "/proc":
            return "processes"
        try:
            relative = Path(text).relative_to(self.state_dir)
        except ValueError:
            return ""
        return _RANDOM.sub("*", relative.name) or "."


_TAP: ContextVar[Tap | None] = ContextVar("tap", default=None)
_PATHS: tuple[tuple[Any, str, int], ...] = (
    (os, "open", errno.EMFILE),
    (os, "mkdir", errno.ENOSPC),
    (os, "listdir", errno.EACCES),
    (os, "scandir", errno.EACCES),
    (os, "fsync", errno.EIO),
    (os, "replace", errno.ENOSPC),
    (os, "rename", errno.ENOSPC),
    (fcntl, "flock", errno.ENOLCK),
)
_OTHERS: tuple[tuple[Any, str, int], ...] = (
    (os, "posix_spawn", errno.EAGAIN),
    (os, "pidfd_open", errno.EMFILE),
    (signal, "pidfd_send_signal", errno.EPERM),
    (socket.socket, "bind", errno.EIO),
    (socket.socket, "listen", errno.EIO),
)
"""The wrapped calls, each with the error it fails with; the second kind has no path."""


@contextlib.contextmanager
def tapped(tap: Tap) -> Iterator[Tap]:
    """Look at the calls made by the current context from now on; at the end what hangs is let go on."""
    _install()
    token = _TAP.set(tap)
    try:
        yield tap
    finally:
        tap.released.set()
        _TAP.reset(token)


def _install() -> None:
    if getattr(os.open, "is_tapped", False):
        return
    for owner, name, number in _PATHS:
        setattr(owner, name, _with_path(name, getattr(owner, name), number))
    for owner, name, number in _OTHERS:
        setattr(owner, name, _without_path(name, getattr(owner, name), number))
    io.open = builtins.open = _opening(builtins.open)


def _with_path(call: str, original: Callable[..., Any], number: int) -> Callable[..., Any]:
    def tapped_call(path: Any = ".", *args: Any, **kwargs: Any) -> Any:
        tap = _TAP.get()
        if tap is None or kwargs.get("dir_fd") is not None:
            return original(path, *args, **kwargs)
        subject = tap.name(path)
        if not subject or (call == "flock" and args[0] == fcntl.LOCK_UN) or not tap.is_due(call, subject):
            return original(path, *args, **kwargs)
        return tap.perform(lambda: original(path, *args, **kwargs), number)

    tapped_call.is_tapped = True  # type: ignore[attr-defined]
    return tapped_call


def _without_path(call: str, original: Callable[..., Any], number: int) -> Callable[..., Any]:
    def tapped_call(*args: Any, **kwargs: Any) -> Any:
        tap = _TAP.get()
        if tap is None or not tap.is_due(call, ""):
            return original(*args, **kwargs)
        return tap.perform(lambda: original(*args, **kwargs), number)

    return tapped_call


def _opening(original: Callable[..., Any]) -> Callable[..., Any]:
    def tapped_open(path: Any, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
        tap = _TAP.get()
        subject = "" if tap is None or isinstance(path, int) else tap.name(path)
        if tap is None or not subject or not tap.is_due("write" if "w" in mode else "read", subject):
            return original(path, mode, *args, **kwargs)
        number = errno.ENOSPC if "w" in mode else errno.EIO
        return tap.perform(lambda: original(path, mode, *args, **kwargs), number)

    return tapped_open
