"""Proxies in doubt: asked for by the processes that probe, so that they probe at once and say what they found."""

import asyncio
import logging
from collections.abc import Callable

from leasing.client import BrokerClient
from model.errors import UnavailableError
from model.lease_operations import Probe

logger = logging.getLogger(__name__)

ASK_SECONDS = 1.0
HOLD_SECONDS = 30.0
"""How much longer than to its next probe a proxy is held back after one that failed."""


class DoubtBook:
    """The doubted proxies among those that this process watches.

    The broker is asked by a query, which adds no history; nobody asks while nothing is watched.
    """

    def __init__(self, broker: BrokerClient, ask_seconds: float = ASK_SECONDS) -> None:
        self._broker = broker
        self._ask_seconds = ask_seconds
        self._wakers: dict[str, Callable[[], None]] = {}
        self._since: dict[str, float] = {}
        self._findings: dict[str, Probe] = {}
        self._found = asyncio.Event()

    def watch(self, uid: str, wake: Callable[[], None]) -> None:
        """Call ``wake`` once for every doubt about this proxy; a later watch of the uid replaces an earlier one."""
        self._wakers[uid] = wake
        self._since.pop(uid, None)

    def leave(self, uid: str, wake: Callable[[], None]) -> None:
        """End a watch, unless another has taken its place."""
        if self._wakers.get(uid) == wake:
            del self._wakers[uid]
            self._since.pop(uid, None)

    def note(self, proxy_id: str, uid: str, *, started: float, works: bool, next_in: float) -> None:
        """Take in what a probe found.

        Args:
            proxy_id: The proxy.
            uid: Its uid.
            started: When the probe began, in the event loop's time; one from before the doubt proves nothing.
            works: What it found.
            next_in: Seconds until the next probe has ended, at most.
        """
        since = self._since.get(uid)
        if since is None or started < since:
            return
        hold = 0 if works else int((next_in + HOLD_SECONDS) * 1000)
        self._findings[uid] = Probe(proxy_id, uid, hold)
        self._found.set()

    async def run(self) -> None:
        """Ask and tell for ever."""
        while True:
            try:
                async with asyncio.timeout(self._ask_seconds):
                    await self._found.wait()
            except TimeoutError:
                pass
            try:
                await self._tell()
                await self._ask()
            except UnavailableError as error:
                logger.info("proxies in doubt are asked for later: %s", error)
                await asyncio.sleep(self._ask_seconds)

    async def _tell(self) -> None:
        self._found.clear()
        findings = list(self._findings.items())
        if not findings:
            return
        await self._broker.tell_probes([finding for _, finding in findings])
        for uid, finding in findings:
            if self._findings.get(uid) is finding:
                del self._findings[uid]

    async def _ask(self) -> None:
        if not self._wakers:
            return
        doubted = {uid for _, uid in await self._broker.doubted_proxies()}
        for uid in self._since.keys() - doubted:
            del self._since[uid]
        for uid in (self._wakers.keys() & doubted) - self._since.keys():
            self._since[uid] = asyncio.get_running_loop().time()
            self._wakers[uid]()
