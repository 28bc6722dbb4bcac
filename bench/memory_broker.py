"""The rules of leasing in memory, behind the product's own HTTP handlers: what durability is compared with.

``python -m bench.memory_broker PROXIES PORT``; the file has the proxies as ``encode_proxies`` writes them.
"""

import asyncio
import json
import signal
import sys
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import cast

from prometheus_client import CollectorRegistry

from api.application import create_app
from api.server import serve
from api.settings import ApiSettings
from app.dev.ports import LOOPBACK
from leasing.client import BrokerClient, ProxyList
from model.errors import UnavailableError
from model.lease_answers import Answer, Granted, NoMatch, Word
from model.lease_list import ListedProxy
from model.lease_operations import Acquire, Operation, Primed, ProxyView, Release, Report, Transition
from model.leases import LeaseTable


def encode_proxies(proxies: Iterable[ListedProxy]) -> str:
    """Return the proxies of a real broker as text."""
    return json.dumps([[proxy.id, proxy.view] for proxy in proxies])


class MemoryBroker:
    """The methods of ``BrokerClient`` that the handlers call, over a table in this process."""

    def __init__(self, proxies: str) -> None:
        self._table = LeaseTable()
        for proxy_id, view in json.loads(proxies):
            self._apply(Transition(proxy_id, proxy_id, (1, 1), ProxyView(*view)))
        self._apply(Primed())

    async def acquire(
        self, lease_id: str, selector: Mapping[str, str], target: str, ttl_millis: int, cooldown_millis: int
    ) -> Granted | NoMatch:
        """Take a lease."""
        answer = self._apply(Acquire(lease_id, dict(selector), target, ttl_millis, cooldown_millis))
        if not isinstance(answer, Granted | NoMatch):
            raise UnavailableError(f"the table answered {answer!r}")
        return answer

    async def release(self, lease_id: str) -> None:
        """End a lease."""
        self._apply(Release(lease_id))

    async def report(self, lease_id: str, result: str, target: str, cooldown_millis: int) -> bool:
        """Say how a target treated the lease's proxy."""
        return self._apply(Report(lease_id, result, target, cooldown_millis)) is not Word.UNKNOWN_LEASE

    async def list_proxies(self) -> ProxyList:
        """Return every proxy."""
        rows = [ListedProxy(proxy.id, proxy.view, active) for proxy, active in self._table.views(_now_millis())]
        return ProxyList(rows, time.monotonic())

    def _apply(self, operation: Operation) -> Answer:
        self._table.advance(_now_millis())
        return self._table.apply(operation)


def _now_millis() -> int:
    return time.time_ns() // 1_000_000


async def main(proxies: str, port: int) -> None:
    """Serve until SIGTERM."""
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    settings = ApiSettings(discovery_addr=f"{LOOPBACK}:{port}")
    broker = cast("BrokerClient", MemoryBroker(proxies))
    await serve(create_app(settings, broker, CollectorRegistry()), settings, stop)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]).read_text(), int(sys.argv[2])))
