"""One control plane and one Temporal server for a whole test session, shared by its pytest-xdist workers.

Each server runs under a process of its own (``server_process.py``), started by the first test that needs it. That
process holds on while somebody holds the session's lock, which is the main pytest process from its start to its end:
the kernel gives the lock back however that comes, so that nothing is left running.
"""

import contextlib
import fcntl
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil

REPOSITORY = Path(__file__).resolve().parents[2]
START_SECONDS = 90.0
STOP_SECONDS = 30.0
POLL_SECONDS = 0.05

# Kept, because an unfinished Popen that nobody refers to any more is a ResourceWarning.
_started: list["subprocess.Popen[bytes]"] = []


class ServerFailedError(Exception):
    """A shared server did not start; the message says why."""


def session_lock(directory: Path) -> Path:
    """Return the file whose lock the session holds."""
    return directory / "session.lock"


class SharedServers:
    """The servers of one session, by the session's folder."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def facts(self, kind: str) -> dict[str, str]:
        """Return what the running server of a kind tells of itself; start it when it is the first time.

        A start that failed fails for every later caller too, with the same words.
        """
        with (self.directory / f"{kind}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            ready = self.directory / f"{kind}.json"
            if not ready.exists():
                self._start(kind, ready)
            facts = json.loads(ready.read_text())
        if "error" in facts:
            raise ServerFailedError(facts["error"])
        return {str(name): str(value) for name, value in facts.items()}

    def _start(self, kind: str, ready: Path) -> None:
        log_path = self.directory / f"{kind}.log"
        with log_path.open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "tests.support.server_process", kind, str(self.directory)],
                cwd=REPOSITORY,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        _started.append(process)
        (self.directory / f"{kind}.pid").write_text(str(process.pid))
        end = time.monotonic() + START_SECONDS
        while not ready.exists():
            if process.poll() is not None or time.monotonic() > end:
                process.kill()
                ready.write_text(json.dumps({"error": f"{kind} did not start: {log_path.read_text()[-4000:]}"}))
                return
            time.sleep(POLL_SECONDS)


class Session:
    """The session as its main pytest process has it: makes the folder, holds the lock, and ends the servers."""

    def __init__(self) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="egress-proxies-tests-"))
        self._lock = os.open(session_lock(self.directory), os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)

    def close(self) -> None:
        """Give the lock back, wait until the servers are gone, and remove the folder."""
        os.close(self._lock)
        for pid_file in self.directory.glob("*.pid"):
            with contextlib.suppress(psutil.NoSuchProcess):
                process = psutil.Process(int(pid_file.read_text()))
                try:
                    process.wait(STOP_SECONDS)
                except psutil.TimeoutExpired:
                    process.kill()
        shutil.rmtree(self.directory)
