"""Bounds around any provider: deadlines, numbers of instances and creates, and nothing but contract errors."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from model.errors import ProviderError, QuotaExceededError, TransientError, clean_message
from model.instance import Instance
from providers.config import ProviderEntry
from providers.contract import CreateRequest, Provider

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Deadlines:
    """How long one call may take, in seconds."""

    create: float = 60.0
    other: float = 30.0
    close: float = 30.0


class LimitedProvider(Provider):
    """Holds another provider to its entry's limits.

    * Every call ends within its deadline: ``TransientError`` naming the operation and the seconds.
    * ``maxConcurrentCreates`` creates run at a time in this process; the wait for a turn is not part of the deadline.
    * ``maxInstances`` instances exist at most, counted in the provider's own list when a new one is made. Creates of
      this process see each other; processes that create in the same moment may exceed the limit by what is in flight.
    * An error outside the contract becomes ``TransientError`` with its class and its masked message.
    * Errors carry the entry's hash, so that a permanent one can be forgotten when the entry changes.
    """

    def __init__(
        self, provider: Provider, entry: ProviderEntry, installation: str, deadlines: Deadlines | None = None
    ) -> None:
        self._provider = provider
        self._entry = entry
        self._installation = installation
        self._deadlines = deadlines or Deadlines()
        limit = entry.max_concurrent_creates
        self._turn = asyncio.Semaphore(limit) if limit is not None else None
        self._creating: dict[str, int] = {}
        self._in_flight = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._closed = False

    async def create(self, request: CreateRequest) -> Instance:
        """Create within the limits; see the class.

        Raises:
            QuotaExceededError: Also when ``maxInstances`` are there already.
        """
        async with self._turn or contextlib.nullcontext(), self._announced(request.name):
            if self._entry.max_instances is not None:
                await self._check_number(request.name, self._entry.max_instances)
            return await self._call("create", lambda: self._provider.create(request), self._deadlines.create)

    async def find(self, name: str) -> Instance | None:
        """Find within the deadline."""
        return await self._call("find", lambda: self._provider.find(name), self._deadlines.other)

    async def get(self, provider_id: str) -> Instance:
        """Get within the deadline."""
        return await self._call("get", lambda: self._provider.get(provider_id), self._deadlines.other)

    async def delete(self, provider_id: str, incarnation: str) -> None:
        """Delete within the deadline."""
        await self._call("delete", lambda: self._provider.delete(provider_id, incarnation), self._deadlines.other)

    async def list_managed(self) -> list[Instance]:
        """List within the deadline."""
        return await self._call("list", lambda: self._provider.list_managed(), self._deadlines.other)

    async def close(self) -> None:
        """Let the calls in flight finish, then close the provider.

        Raises:
            TransientError: They did not finish within the longest deadline, or closing failed.
        """
        self._closed = True
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._idle.wait(), self._deadlines.create + self._deadlines.other)
        await self._bounded("close", lambda: self._provider.close(), self._deadlines.close)

    async def _check_number(self, name: str, limit: int) -> None:
        instances = await self._call("list", lambda: self._provider.list_managed(), self._deadlines.other)
        ours = {instance.name for instance in instances if instance.installation in ("", self._installation)}
        if name in ours:
            return
        # Creates that began earlier in this process may not show in the list yet; later ones wait for their own check.
        before_us: set[str] = set()
        for creating in self._creating:
            if creating == name:
                break
            before_us.add(creating)
        number = len(ours | before_us)
        if number >= limit:
            raise self._marked(
                QuotaExceededError(
                    f"provider {self._entry.name} has {number} of at most {limit} instances (maxInstances); "
                    "delete some or raise the limit"
                )
            )

    @contextlib.asynccontextmanager
    async def _announced(self, name: str) -> AsyncIterator[None]:
        self._creating[name] = self._creating.get(name, 0) + 1
        try:
            yield
        finally:
            self._creating[name] -= 1
            if not self._creating[name]:
                del self._creating[name]

    async def _call(self, operation: str, call: Callable[[], Awaitable[T]], seconds: float) -> T:
        if self._closed:
            raise self._marked(TransientError(f"the config of provider {self._entry.name} has changed; call again"))
        self._in_flight += 1
        self._idle.clear()
        try:
            return await self._bounded(operation, call, seconds)
        finally:
            self._in_flight -= 1
            if not self._in_flight:
                self._idle.set()

    async def _bounded(self, operation: str, call: Callable[[], Awaitable[T]], seconds: float) -> T:
        try:
            async with asyncio.timeout(seconds) as deadline:
                return await call()
        except ProviderError as error:
            self._marked(error)
            raise
        except Exception as error:
            if isinstance(error, TimeoutError) and deadline.expired():
                text = f"{operation} at provider {self._entry.name} did not end within {seconds:g} s"
            else:
                # The original may hold secrets in its text and its arguments, so it is not chained.
                detail = clean_message(f"{type(error).__name__}: {error}")
                text = f"{operation} at provider {self._entry.name} failed: {detail}"
            raise self._marked(TransientError(text)) from None

    def _marked(self, error: ProviderError) -> ProviderError:
        error.entry_hash = self._entry.entry_hash
        return error
