"""Starts the process of an instance so that it outlives the worker."""

import os
import signal
from pathlib import Path

from providers.local import process, software
from providers.local.process import ProcessIdentity
from providers.local.records import InstanceRecord


def spawn(folder: Path, record: InstanceRecord) -> ProcessIdentity:
    """Write the configuration and start the program; it is loaded when this returns.

    Raises:
        PermanentError: The program is not installed any more.
        OSError: It cannot be started.
    """
    software.write_config(folder, record)
    arguments = software.command(folder, record)
    log = os.open(folder / software.LOG_FILE, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        # A session of its own: no signal meant for the worker, a Ctrl-C for instance, reaches the proxy.
        pid = os.posix_spawn(
            arguments[0],
            arguments,
            software.environment(folder),
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_DUP2, log, 1),
                (os.POSIX_SPAWN_DUP2, log, 2),
            ],
            setsid=True,
            setsigmask=[],
            setsigdef=[signal.SIGPIPE, signal.SIGINT, signal.SIGTERM],
        )
    finally:
        os.close(log)
    # One that has ended already gets an identity no process has: it was there, and it is dead.
    return process.identify(pid) or ProcessIdentity(pid, 0, process.boot_id())
