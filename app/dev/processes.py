"""Child processes of the embedded stack.

A child is an ordinary ``subprocess.Popen`` that is polled, and not an asyncio subprocess: those die with the event loop
that started them, and a test session starts its servers in one loop and uses them from many.
"""

import asyncio
import atexit
import os
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

from model.errors import EgressProxiesError

LOG_TAIL_LINES = 20
POLL_SECONDS = 0.03

ReadyCheck = Callable[[], Awaitable[bool]]


class ProcessFailedError(EgressProxiesError):
    """A child ended early, or was not ready in time; the message has the last lines of its log."""


class ChildProcess:
    """One running child.

    Attributes:
        name: What messages call it.
        log_path: Where its standard output and error are appended.
    """

    def __init__(self, name: str, process: "subprocess.Popen[bytes]", log_path: Path, log_start: int) -> None:
        self.name = name
        self.log_path = log_path
        self._process = process
        self._log_start = log_start

    @classmethod
    async def start(
        cls,
        name: str,
        command: Sequence[str | Path],
        log_path: Path,
        *,
        ready: ReadyCheck | None = None,
        deadline: float = 60.0,
        environment: Mapping[str, str] | None = None,
    ) -> "ChildProcess":
        """Start a child and wait until it is ready.

        Args:
            name: What messages call it.
            command: Program and arguments; no shell.
            log_path: Its output is appended here.
            ready: Asked until it says True; an exception it raises means not yet.
            deadline: Seconds until it must be ready.
            environment: Its whole environment; ours when None.

        Raises:
            ProcessFailedError: It could not be started, ended early, or was not ready in time. It is not running then.
        """
        spawning = asyncio.ensure_future(asyncio.to_thread(cls._spawn, name, command, log_path, environment))
        try:
            child = await asyncio.shield(spawning)
        except asyncio.CancelledError:
            # The thread goes on, whatever becomes of us: what it starts would have no owner.
            await (await spawning).kill()
            raise
        try:
            if ready is not None:
                await child._wait_ready(ready, deadline)
        except BaseException:
            await child.kill()
            raise
        return child

    @classmethod
    def _spawn(
        cls, name: str, command: Sequence[str | Path], log_path: Path, environment: Mapping[str, str] | None
    ) -> "ChildProcess":
        log_path.parent.mkdir(parents=True, exist_ok=True)
        with open(os.open(log_path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600), "ab") as log:
            log_start = log.tell()
            try:
                process = subprocess.Popen(  # noqa: S603 - the caller's own command, without a shell
                    [str(part) for part in command],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env=dict(environment) if environment is not None else None,
                    # A Ctrl-C in the terminal reaches us alone, so that we decide in which order the children stop.
                    start_new_session=True,
                )
            except OSError as error:
                raise ProcessFailedError(f"{name} cannot be started from {command[0]}: {error}") from error
        guard.watch(process.pid)
        return cls(name, process, log_path, log_start)

    async def _wait_ready(self, ready: ReadyCheck, deadline: float) -> None:
        end = time.monotonic() + deadline
        problem = "the check said no"
        while self.running:
            remaining = end - time.monotonic()
            if remaining <= 0:
                raise ProcessFailedError(
                    f"{self.name} was not ready within {deadline:g} s ({problem}){self._log_text()}"
                )
            try:
                # Asked once more whether it runs, because what answered may be a stranger on the same port.
                if await asyncio.wait_for(ready(), remaining) and self.running:
                    return
            except Exception as error:  # whatever a check meets while a server starts means: not yet
                problem = f"{type(error).__name__}: {error}"
            await asyncio.sleep(POLL_SECONDS)
        raise ProcessFailedError(f"{self.name} ended with code {self.returncode} before it was ready{self._log_text()}")

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """Exit code, negative signal number, or None while it runs."""
        code = self._process.poll()
        if code is not None:
            guard.forget(self.pid)
        return code

    @property
    def running(self) -> bool:
        """Whether it still runs."""
        return self.returncode is None

    async def wait(self) -> int:
        """Wait until it ends and return its exit code. Without a deadline: bound it with ``asyncio.timeout``."""
        while (code := self.returncode) is None:  # noqa: ASYNC110 - waitpid has no event; see the module's docstring
            await asyncio.sleep(POLL_SECONDS)
        return code

    async def stop(self, grace: float = 10.0) -> int:
        """End it with SIGTERM, and with SIGKILL when it still runs after ``grace`` seconds; return its exit code."""
        if self.running:
            self._process.terminate()
        try:
            async with asyncio.timeout(grace):
                return await self.wait()
        except TimeoutError:
            return await self.kill()

    async def kill(self) -> int:
        """End it with SIGKILL, wait until it is gone and return its exit code."""
        if self.running:
            self._process.kill()
        return await self.wait()

    def log_tail(self, lines: int = LOG_TAIL_LINES) -> str:
        """Return the last lines that this run wrote to its log."""
        with self.log_path.open("rb") as log:
            size = log.seek(0, os.SEEK_END)
            log.seek(max(self._log_start, size - 64 * 1024))
            return "\n".join(log.read().decode("utf-8", "replace").splitlines()[-lines:])

    def _log_text(self) -> str:
        return f"; the end of {self.log_path}:\n{self.log_tail()}"


class Guard:
    """Ends our children when we die without doing so ourselves, by kill -9 for instance.

    A helper process reads the pids of our children from a pipe that only we hold; when the pipe closes, it ends what is
    left. The kernel's own way (PR_SET_PDEATHSIG) needs code between fork and exec, which is not safe with threads, and
    fires when the thread that forked ends, which here is one of a pool.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._helper: subprocess.Popen[bytes] | None = None
        self._watched: set[int] = set()

    def watch(self, pid: int) -> None:
        """Have a child ended when we die."""
        with self._lock:
            self._watched.add(pid)
            self._tell(f"+{pid}\n")

    def forget(self, pid: int) -> None:
        """Leave a child alone that has ended."""
        with self._lock:
            if pid in self._watched:
                self._watched.discard(pid)
                self._tell(f"-{pid}\n")

    def close(self) -> None:
        """End the helper, which first ends every child that is still watched. The next child starts a new one."""
        with self._lock:
            helper, self._helper = self._helper, None
            self._watched.clear()
        if helper is not None:
            # communicate() closes the pipe, also when the helper has died.
            helper.communicate()

    def _tell(self, line: str) -> None:
        if self._helper is None or self._helper.poll() is not None:
            self._helper = self._start_helper()
            line = "".join(f"+{pid}\n" for pid in self._watched)
        assert self._helper.stdin is not None  # noqa: S101 - it was started with a pipe
        self._helper.stdin.write(line.encode())

    def _start_helper(self) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(  # noqa: S603 - our own script
            [sys.executable, "-I", str(Path(__file__).with_name("processes_guard.py"))],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
            bufsize=0,
        )


guard = Guard()
# What a normal exit forgot to stop is stopped too, and the helper does not outlive us.
atexit.register(guard.close)
