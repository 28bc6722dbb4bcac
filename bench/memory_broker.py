"""The rules of leasing in memory, behind the product's own HTTP handlers: what durability is compared with.

``python -m bench.memory_broker PROXIES PORT``; the file has the proxies as ``encode_proxies`` writes them.
"""

import asyncio
import json
import sys
import time
from pathlib import Path

from temporalio.client import Client

from bench.handlers import serve_until_terminated
from bench.local_commit import LocalBroker, local_client
from model import lease_list
from model.lease_answers import Answer
from model.lease_operations import Operation, Primed, ProxyView, Transition
from model.leases import LeaseTable


class MemoryBroker(LocalBroker):
    """A lease table in this process."""

    def __init__(self, client: Client, proxies: str) -> None:
        super().__init__(client, self._apply)
        self._table = LeaseTable()
        self._table.advance(_now_millis())
        for proxy_id, view in json.loads(proxies):
            self._table.apply(Transition(proxy_id, proxy_id, (1, 1), ProxyView(*view)))
        self._table.apply(Primed())

    def _apply(self, operation: Operation, answer: "asyncio.Future[Answer]") -> None:
        self._table.advance(_now_millis())
        answer.set_result(self._table.apply(operation))

    async def _query(self, name: str) -> str:
        return lease_list.encode_list(self._table, _now_millis())


def _now_millis() -> int:
    return time.time_ns() // 1_000_000


async def main(proxies: str, port: int) -> None:
    """Serve until SIGTERM."""
    await serve_until_terminated(MemoryBroker(await local_client(), proxies), port)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]).read_text(), int(sys.argv[2])))
