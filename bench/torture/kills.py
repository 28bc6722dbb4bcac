"""kill -9, and what a supervisor does afterwards."""

import asyncio
import random
import signal
from collections.abc import Awaitable, Callable

from bench.installation import LEASE_WORKER, WATCHER, WORKER, Installation, api_names
from model.names import instance_name
from providers.local import process
from providers.local.records import RecordStore
from providers.local.settings import Software

TWO_AT_ONCE = "two at once"
_TEMPORAL_PAUSE = 0.5

Uids = Callable[[], Awaitable[list[str]]]
"""Uids of the Managed Proxies whose process may be killed."""


class Killer:
    """Kills one kind of process after another, each as often as the others, in random order."""

    def __init__(self, installation: Installation, software: Software, uids: Uids) -> None:
        self._installation = installation
        self._records = RecordStore(installation.directory / "proxies" / software.value)
        self._uids = uids
        self._left: list[str] = []
        self._apis = api_names(len(installation.api_ports))
        self._kinds: dict[str, Callable[[], Awaitable[None]]] = {
            "the lease worker": lambda: self._restart(LEASE_WORKER),
            "the other worker": lambda: self._restart(WORKER),
            "an API": lambda: self._restart(random.choice(self._apis)),
            "the watcher": lambda: self._restart(WATCHER),
            "Temporal": self._restart_temporal,
            "a proxy": self._kill_proxy,
            TWO_AT_ONCE: self._restart_two,
        }

    def next_kind(self) -> str:
        """Choose what to kill next."""
        if not self._left:
            self._left = random.sample(list(self._kinds), len(self._kinds))
        return self._left.pop()

    async def kill(self, kind: str) -> None:
        """Kill it, and wait until what a supervisor starts in its place is ready."""
        await self._kinds[kind]()

    async def revive(self) -> list[str]:
        """Start again what has ended by itself; returns its names."""
        parts = self._installation.parts
        ended = [name for name, child in parts.children.items() if not child.running]
        for name in ended:
            await parts.start_again(name)
        return ended

    async def _restart(self, name: str) -> None:
        await self._installation.parts.kill(name)
        await self._installation.parts.start_again(name)

    async def _restart_two(self) -> None:
        names = random.sample([LEASE_WORKER, WORKER, WATCHER, *self._apis], 2)
        await asyncio.gather(*map(self._restart, names))

    async def _restart_temporal(self) -> None:
        await self._installation.temporal.kill()
        await asyncio.sleep(_TEMPORAL_PAUSE)
        await self._installation.temporal.start()

    async def _kill_proxy(self) -> None:
        uids = await self._uids()
        if uids:
            await asyncio.to_thread(self._end_process, random.choice(uids))

    def _end_process(self, uid: str) -> None:
        # Without a record it is just being replaced.
        record = self._records.read(instance_name(uid))
        if record is not None and record.process is not None:
            process.send(record.process, signal.SIGKILL)
