"""Short commands of the machine, run to their end; they block, so they belong in a thread."""

import subprocess
from collections.abc import Sequence
from pathlib import Path

from model.errors import EgressProxiesError

_SECONDS = 60.0


class CommandFailedError(EgressProxiesError):
    """A command ended with another code than 0, or not in time; the message has what it said."""


def run(command: Sequence[str | Path], seconds: float = _SECONDS) -> str:
    """Run a command without a shell and return its standard output.

    Raises:
        CommandFailedError: It could not be started, failed, or did not end in time (then it is killed).
    """
    words = [str(word) for word in command]
    try:
        done = subprocess.run(  # noqa: S603 - the caller's own command, without a shell
            words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=seconds, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CommandFailedError(f"{' '.join(words)}: {error}") from error
    if done.returncode != 0:
        raise CommandFailedError(
            f"{' '.join(words)} ended with {done.returncode}: {(done.stderr or done.stdout).strip()}"
        )
    return done.stdout
