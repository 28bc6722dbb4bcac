"""What probes tell the broker: the latest latency of each proxy, in bulk and only when it moved, and ends of doubts."""

import asyncio
import logging

from leasing.client import BrokerClient
from leasing.doubt_book import DoubtBook
from model.errors import UnavailableError
from model.lease_operations import Latency

logger = logging.getLogger(__name__)

FLUSH_SECONDS = 60.0
_FLOOR_MILLIS = 20
_MOST_ROWS = 500


class LatencyBook:
    """The latencies that this worker's probes measured.

    Attributes:
        doubts: The proxies that the broker wants probed at once.
    """

    def __init__(self, broker: BrokerClient, flush_seconds: float = FLUSH_SECONDS) -> None:
        self.doubts = DoubtBook(broker)
        self._broker = broker
        self._flush_seconds = flush_seconds
        self._told: dict[tuple[str, str], int] = {}
        self._moved: dict[tuple[str, str], int] = {}

    def note(self, proxy_id: str, uid: str, latency_millis: int) -> None:
        """Take in one probe; a latency that moved by more than half and 20 ms since the last one told is kept."""
        key = (proxy_id, uid)
        before = self._told.setdefault(key, latency_millis)
        moved = abs(latency_millis - before)
        if moved > _FLOOR_MILLIS and moved > before / 2:
            self._moved[key] = latency_millis
        else:
            self._moved.pop(key, None)

    def forget(self, proxy_id: str, uid: str) -> None:
        """Drop a proxy that is not watched here any more."""
        self._told.pop((proxy_id, uid), None)
        self._moved.pop((proxy_id, uid), None)

    async def run(self) -> None:
        """Tell the broker for ever, one batch of latencies per period."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._tell_latencies(), name="latencies")
            tasks.create_task(self.doubts.run(), name="doubts")

    async def _tell_latencies(self) -> None:
        while True:
            await asyncio.sleep(self._flush_seconds)
            try:
                await self.flush()
            except UnavailableError as error:
                logger.info("latencies are told later: %s", error)

    async def flush(self) -> None:
        """Tell what moved.

        Raises:
            UnavailableError: The broker does not answer; the rows are kept.
        """
        rows = list(self._moved.items())[:_MOST_ROWS]
        if not rows:
            return
        await self._broker.tell_latencies([Latency(proxy_id, uid, millis) for (proxy_id, uid), millis in rows])
        for key, millis in rows:
            self._told[key] = millis
            if self._moved.get(key) == millis:
                del self._moved[key]
