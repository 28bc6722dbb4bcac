"""What a person who started the stack reads: each step, and how long it took."""

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager


def say(line: str = "") -> None:
    """Print one line at once."""
    print(line, flush=True)


@contextmanager
def step(what: str) -> Iterator[None]:
    """Say what begins, and when it has ended how long it took."""
    say(f"==> {what}")
    started = time.monotonic()
    yield
    # Steps may overlap, so the end names its beginning.
    say(f"    {re.split('[;(]', what)[0].strip()}: done in {time.monotonic() - started:.1f} s")


def progress(line: str) -> None:
    """Say how a long step is getting on."""
    say(f"    {line}")
