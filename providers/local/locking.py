"""One lock per box, for threads and processes alike."""

import contextlib
import fcntl
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from model.errors import TransientError

_POLL_SECONDS = 0.01


class BoxLock:
    """An exclusive lock on a file, held for the milliseconds of one change of the box's state.

    The kernel gives it up when its holder dies. A process being started holds it too, until its program is loaded: so
    whoever gets the lock after a holder died finds that program in the process table.
    """

    def __init__(self, path: Path, timeout: float = 20.0) -> None:
        """Use the file at ``path``; ``timeout`` is in seconds."""
        self._path = path
        self._timeout = timeout
        self._thread_lock = threading.Lock()

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Hold the lock.

        Raises:
            TransientError: Somebody else held it all the time.
        """
        deadline = time.monotonic() + self._timeout
        if not self._thread_lock.acquire(timeout=self._timeout):
            raise self._busy()
        try:
            # Python opens files close-on-exec, which ends a started program's share in the lock.
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
            try:
                self._wait(descriptor, deadline)
                yield
            finally:
                os.close(descriptor)
        finally:
            self._thread_lock.release()

    def _wait(self, descriptor: int, deadline: float) -> None:
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise self._busy() from None
            time.sleep(_POLL_SECONDS)

    def _busy(self) -> TransientError:
        return TransientError(f"{self._path}: another process held the lock for {self._timeout:g} s")
