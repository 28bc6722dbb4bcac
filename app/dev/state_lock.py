"""One run at a time in a state folder."""

import contextlib
import fcntl
from collections.abc import Iterator
from pathlib import Path

from model.errors import ConfigurationError


@contextlib.contextmanager
def alone_in(directory: Path, what: str) -> Iterator[None]:
    """Hold the folder while the body runs; the kernel lets go of it when the process dies.

    Args:
        directory: State folder, made where it is missing.
        what: What runs there, a word for the lock file and the message.

    Raises:
        ConfigurationError: Another process holds it.
    """
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    with (directory / f".{what}.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ConfigurationError(
                f"another {what} runs in {directory}: wait for its end, or give another --state-dir"
            ) from None
        yield
