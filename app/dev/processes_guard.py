"""The helper process behind ``app.dev.processes.Guard``: ends processes once its standard input closes.

Lines on standard input: ``+PID`` watches a process, ``-PID`` forgets it. It is run as a script and imports nothing of
ours, so that it starts quickly and depends on no working directory.
"""

import contextlib
import sys
import time
from typing import TextIO

import psutil

GRACE_SECONDS = 5.0
POLL_SECONDS = 0.05


def read_until_closed(lines: TextIO) -> list[psutil.Process]:
    """Return what is still watched when the input closes; psutil tells a process from a later one of the same pid."""
    watched: dict[int, psutil.Process] = {}
    for line in lines:
        pid = int(line[1:])
        if line.startswith("+"):
            with contextlib.suppress(psutil.NoSuchProcess):
                watched[pid] = psutil.Process(pid)
        else:
            watched.pop(pid, None)
    return list(watched.values())


def end(processes: list[psutil.Process]) -> None:
    """End processes with SIGTERM, and with SIGKILL what still runs after the grace time."""
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.terminate()
    deadline = time.monotonic() + GRACE_SECONDS
    while any(runs(process) for process in processes):
        if time.monotonic() > deadline:
            for process in processes:
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.kill()
            return
        time.sleep(POLL_SECONDS)


def runs(process: psutil.Process) -> bool:
    """Whether it still does something; a zombie only waits for its parent, which may never ask."""
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


if __name__ == "__main__":
    end(read_until_closed(sys.stdin))
