"""Sends pokes: the latest per Proxy, a few at a time, again until Temporal takes them."""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable

from model.errors import PokeRefusedError, UnavailableError
from model.messages import Poke

logger = logging.getLogger(__name__)

Key = tuple[str, str]

_SENDERS = 8
_FIRST_WAIT_SECONDS = 0.5
_LONGEST_WAIT_SECONDS = 15.0


class PokeQueue:
    """Pokes on their way; a newer one for the same Proxy takes the place of one that still waits."""

    def __init__(self, send: Callable[[Poke], Awaitable[None]]) -> None:
        self._send = send
        self._waiting: dict[Key, Poke] = {}
        self._arrived = asyncio.Condition()
        self._sending: set[Key] = set()

    async def put(self, poke: Poke) -> None:
        """Have a poke sent."""
        async with self._arrived:
            self._waiting[poke.namespace, poke.name] = poke
            self._arrived.notify()

    async def run(self) -> None:
        """Send for ever."""
        async with asyncio.TaskGroup() as group:
            for _ in range(_SENDERS):
                group.create_task(self._run_sender())

    async def _run_sender(self) -> None:
        failures = 0
        while True:
            key, poke = await self._take()
            try:
                await self._send(poke)
                failures = 0
            except PokeRefusedError as error:
                # One Proxy that Temporal refuses must not keep the pokes of all others.
                logger.error("%s", error)
            except UnavailableError as error:
                logger.warning("%s", error)
                async with self._arrived:
                    self._waiting.setdefault(key, poke)
                wait = min(_LONGEST_WAIT_SECONDS, _FIRST_WAIT_SECONDS * 2.0 ** min(failures, 10))
                failures += 1
                await asyncio.sleep(wait * random.uniform(0.5, 1.0))  # noqa: S311 - jitter, not a secret
            finally:
                async with self._arrived:
                    self._sending.discard(key)
                    self._arrived.notify()

    async def _take(self) -> tuple[Key, Poke]:
        """Return the oldest poke of a Proxy that no other sender is busy with, so that none overtakes another."""
        async with self._arrived:
            while True:
                key = next((key for key in self._waiting if key not in self._sending), None)
                if key is not None:
                    self._sending.add(key)
                    return key, self._waiting.pop(key)
                await self._arrived.wait()
