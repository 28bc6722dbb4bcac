"""The lease API as a crawler that survives everything uses it: any replica, every answer put into a word."""

import asyncio
import random
from collections import Counter
from collections.abc import Sequence
from typing import Any

import aiohttp

from bench.load import HOST

REQUEST_SECONDS = 10.0
"""Past it a request hangs; the API promises an answer within about 3 s."""
_PAUSE_SECONDS = 0.2

Answer = tuple[int, dict[str, Any]]
"""Status and body."""


class LeaseCalls:
    """Requests to any replica.

    Attributes:
        answers: How requests ended.
        details: What was unexpected, the first few.
    """

    def __init__(self, session: aiohttp.ClientSession, ports: Sequence[int]) -> None:
        self.answers: Counter[str] = Counter()
        self.details: list[str] = []
        self._session = session
        self._ports = ports

    async def once(self, method: str, path: str, body: dict[str, Any] | None = None) -> Answer | None:
        """Return the answer; None where the outcome is unknown: no connection, a broken one, 503."""
        url = f"http://{HOST}:{random.choice(self._ports)}{path}"
        try:
            async with self._session.request(method, url, json=body) as response:
                text = await response.read()
                if response.status == 503:
                    self.answers["unavailable"] += 1
                    return None
                return response.status, await response.json() if text else {}
        except TimeoutError:
            self.answers["hung"] += 1
            self.note(f"{method} got no answer within {REQUEST_SECONDS:g} s")
        except (aiohttp.ClientError, OSError, ValueError):
            self.answers["disconnected"] += 1
        return None

    async def until_answered(
        self, method: str, path: str, deadline: float, body: dict[str, Any] | None = None
    ) -> Answer | None:
        """Ask again until there is an answer; None when there was none until this loop time."""
        while asyncio.get_running_loop().time() < deadline:
            answer = await self.once(method, path, body)
            if answer is not None:
                return answer
            await asyncio.sleep(_PAUSE_SECONDS)
        return None

    def unexpected(self, what: str, answer: Answer) -> None:
        """Count an answer that should not be."""
        self.answers["unexpected"] += 1
        self.note(f"{what} was answered with {answer[0]} {answer[1]}")

    def note(self, detail: str) -> None:
        """Keep one of the first details."""
        if len(self.details) < 20:
            self.details.append(detail)
