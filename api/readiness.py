"""Whether the lease broker can be reached."""

import asyncio
import logging

from leasing.client import BrokerClient
from model.errors import UnavailableError

logger = logging.getLogger(__name__)

CHECK_SECONDS = 2.0


class BrokerReadiness:
    """Asks the broker every few seconds.

    Attributes:
        ready: Whether it answered the last time; false before the first.
    """

    def __init__(self, broker: BrokerClient, check_seconds: float = CHECK_SECONDS) -> None:
        self.ready = False
        self._broker = broker
        self._check_seconds = check_seconds

    async def run(self) -> None:
        """Check for ever."""
        while True:
            await self.check()
            await asyncio.sleep(self._check_seconds)

    async def check(self) -> None:
        """Ask once; takes about 3 seconds at most."""
        try:
            await self._broker.summary()
        except UnavailableError as error:
            if self.ready:
                logger.warning("not ready: %s", error)
            self.ready = False
        else:
            self.ready = True
