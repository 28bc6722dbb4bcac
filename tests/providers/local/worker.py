"""A worker of the tests' own: makes instances and ends itself by SIGKILL at a named step.

Arguments: state folder, software, network, port, step ("" for none), instance names.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from providers.local import box as box_module
from providers.local import software
from providers.local.addresses import AddressBook
from providers.local.records import RecordStore
from tests.providers.local.boxes import TestBox


def die_before(owner: Any, name: str, call: int = 1) -> None:
    """End this process when the function is called for the ``call``-th time, before it does anything."""
    original: Callable[..., Any] = getattr(owner, name)
    calls = iter(range(1, 1_000_000))

    def patched(*args: Any, **kwargs: Any) -> Any:
        if next(calls) == call:
            os.kill(os.getpid(), signal.SIGKILL)
        return original(*args, **kwargs)

    setattr(owner, name, patched)


STEPS: dict[str, Callable[[], None]] = {
    "": lambda: None,
    "before the address": lambda: die_before(AddressBook, "reserve"),
    "before the record": lambda: die_before(RecordStore, "write"),
    "before the configuration": lambda: die_before(software, "write_config"),
    "before the start": lambda: die_before(os, "posix_spawn"),
    "after the start": lambda: die_before(RecordStore, "write", call=2),
    "after the second record": lambda: die_before(box_module.Box, "_observe"),
}


async def main() -> None:
    state_dir, software_name, network, port, step, *names = sys.argv[1:]
    STEPS[step]()
    box = TestBox(state_dir=Path(state_dir), software=software_name, network=network, port=int(port))
    provider = box.provider()
    await asyncio.gather(*(provider.create(box.request(name)) for name in names))


if __name__ == "__main__":
    asyncio.run(main())
