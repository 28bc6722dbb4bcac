"""When Proxies appear, become Ready and go, seen by a watch: polling would blur what is measured."""

import asyncio
import time
from collections.abc import Callable, Collection
from typing import Any

from bench.results import BenchError
from cluster.connection import ClusterConnection
from cluster.proxies import collection_path
from cluster.watching import ChangeType, CollectionWatch, WatchSettings


class ReadyWatch:
    """Times by Proxy name, from ``time.perf_counter``.

    Attributes:
        appeared: When the object was first seen.
        ready: When its condition Ready was first seen to be True.
        gone: Names whose object has been deleted.
    """

    def __init__(self, connection: ClusterConnection) -> None:
        self._watch = CollectionWatch(connection, collection_path(), WatchSettings())
        self._news = asyncio.Event()
        self.appeared: dict[str, float] = {}
        self.ready: dict[str, float] = {}
        self.gone: set[str] = set()

    async def run(self) -> None:
        """Watch for ever.

        Raises:
            BenchError: The watch broke, so that times after it would be wrong.
        """
        async for change in self._watch.changes():
            if change.type is ChangeType.BROKEN:
                raise BenchError(f"the watch of Proxies broke: {change.error}")
            if change.body is not None:
                self._take(change.type, change.body)
            self._news.set()

    async def until_ready(self, proxies: Collection[str], deadline: float) -> None:
        """Wait until all are Ready.

        Raises:
            BenchError: Not within ``deadline`` seconds; names some that are not.
        """
        await self._until(lambda: [name for name in proxies if name not in self.ready], deadline, "Ready")

    async def until_gone(self, proxies: Collection[str], deadline: float) -> None:
        """Wait until all are deleted.

        Raises:
            BenchError: Not within ``deadline`` seconds; names some that are not.
        """
        await self._until(lambda: [name for name in proxies if name not in self.gone], deadline, "deleted")

    async def _until(self, missing: Callable[[], list[str]], deadline: float, what: str) -> None:
        end = time.monotonic() + deadline
        while left := missing():
            self._news.clear()
            try:
                async with asyncio.timeout(end - time.monotonic()):
                    await self._news.wait()
            except TimeoutError:
                raise BenchError(
                    f"{len(left)} Proxies are not {what} after {deadline:g} s, {left[0]} for one"
                ) from None

    def _take(self, type_: ChangeType, body: dict[str, Any]) -> None:
        now, name = time.perf_counter(), body["metadata"]["name"]
        if type_ is ChangeType.DELETED:
            self.gone.add(name)
            return
        self.appeared.setdefault(name, now)
        if _is_ready(body):
            self.ready.setdefault(name, now)


def _is_ready(body: dict[str, Any]) -> bool:
    conditions = body.get("status", {}).get("conditions", [])
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)
