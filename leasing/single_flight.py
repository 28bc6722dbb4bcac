"""One question at a time, shared by all who ask."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from leasing.futures import retrieve

Result = TypeVar("Result")


class SingleFlight(Generic[Result]):
    """Shares calls of one function: whoever asks gets the result of a call that started after the question."""

    def __init__(self, call: Callable[[], Awaitable[Result]]) -> None:
        self._call = call
        self._flying: asyncio.Future[Result] | None = None
        self._next: asyncio.Future[Result] | None = None

    async def ask(self) -> Result:
        """Return the result; one who leaves takes it from nobody else."""
        if self._flying is None or self._flying.done():
            self._flying = self._start(self._call())
            return await asyncio.shield(self._flying)
        if self._next is None or self._next.done():
            self._next = self._start(self._call_after(self._flying))
        return await asyncio.shield(self._next)

    async def _call_after(self, flying: "asyncio.Future[Result]") -> Result:
        await asyncio.wait([flying])
        self._flying, self._next = self._next, None
        return await self._call()

    @staticmethod
    def _start(call: Awaitable[Result]) -> "asyncio.Future[Result]":
        future = asyncio.ensure_future(call)
        # Everybody who asked may have left by the time it fails.
        future.add_done_callback(retrieve)
        return future
