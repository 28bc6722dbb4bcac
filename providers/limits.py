"""Bounds around any provider: deadlines, numbers of instances and creates, and nothing but contract errors."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from model.errors import ProviderError, QuotaExceededError, TransientError, clean_message
from model.instance import Instance
from model.provider_health import TargetHealth
from providers.config import ProviderEntry
from providers.contract import Checker, CreateRequest, MarkEditor, Provider
from providers.turns import Turns

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Deadlines:
    """How long one call may take, in seconds."""

    create: float = 60.0
    other: float = 30.0
    check: float = 600.0
    """Only for whoever sets none: those who ask for a check have a shorter deadline of their own."""
    close: float = 30.0


class LimitedProvider(Provider):
    """Holds another provider to its entry's limits.

    * Every call ends within its deadline: ``TransientError`` naming the operation and the seconds.
    * ``maxConcurrentCreates`` creates run at a time in this process; one more is refused with ``NoTurnError``, so that
      whoever waits for a turn holds nothing meanwhile.
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
        self.deadlines = deadlines or Deadlines()
        limit = entry.max_concurrent_creates
        self._turns = Turns(limit) if limit is not None else None
        self._creating: dict[str, int] = {}
        self._in_flight = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._closed = False

    @property
    def checker(self) -> Checker | None:
        """What checks the backend, within the deadline."""
        checker = self._provider.checker
        return None if checker is None else _LimitedChecker(self, checker)

    @property
    def mark_editor(self) -> MarkEditor | None:
        """What changes marks, within the deadline."""
        editor = self._provider.mark_editor
        return None if editor is None else _LimitedMarkEditor(self, editor)

    async def create(self, request: CreateRequest) -> Instance:
        """Create within the limits; see the class.

        Raises:
            QuotaExceededError: Also when ``maxInstances`` are there already.
            NoTurnError: ``maxConcurrentCreates`` run, or others were first; ask again when it says.
        """
        turn = self._turns.turn(request.name) if self._turns else contextlib.nullcontext()
        with turn, self._announced(request.name):
            if self._entry.max_instances is not None:
                await self._check_number(request.name, self._entry.max_instances)
            return await self.call("create", lambda: self._provider.create(request), self.deadlines.create)

    async def find(self, name: str) -> Instance | None:
        """Find within the deadline."""
        return await self.call("find", lambda: self._provider.find(name))

    async def get(self, provider_id: str) -> Instance:
        """Get within the deadline."""
        return await self.call("get", lambda: self._provider.get(provider_id))

    async def delete(self, provider_id: str, incarnation: str) -> None:
        """Delete within the deadline."""
        await self.call("delete", lambda: self._provider.delete(provider_id, incarnation))

    async def list_managed(self) -> list[Instance]:
        """List within the deadline."""
        return await self.call("list", lambda: self._provider.list_managed())

    async def close(self) -> None:
        """Let the calls in flight finish, then close the provider.

        Raises:
            TransientError: They did not finish within the longest deadline, or closing failed.
        """
        self._closed = True
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._idle.wait(), self.deadlines.create + self.deadlines.other)
        await self._bounded("close", lambda: self._provider.close(), self.deadlines.close)

    async def _check_number(self, name: str, limit: int) -> None:
        instances = await self.call("list", lambda: self._provider.list_managed())
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

    @contextlib.contextmanager
    def _announced(self, name: str) -> Iterator[None]:
        self._creating[name] = self._creating.get(name, 0) + 1
        try:
            yield
        finally:
            self._creating[name] -= 1
            if not self._creating[name]:
                del self._creating[name]

    async def call(self, operation: str, call: Callable[[], Awaitable[T]], seconds: float | None = None) -> T:
        """Make a call of the provider within a deadline, by default the one of all but ``create``."""
        if self._closed:
            raise self._marked(TransientError(f"the config of provider {self._entry.name} has changed; call again"))
        self._in_flight += 1
        self._idle.clear()
        try:
            return await self._bounded(operation, call, seconds or self.deadlines.other)
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


class _LimitedChecker(Checker):
    def __init__(self, limited: LimitedProvider, checker: Checker) -> None:
        self._limited = limited
        self._checker = checker

    async def check(self) -> list[TargetHealth]:
        return await self._limited.call("check", self._checker.check, self._limited.deadlines.check)


class _LimitedMarkEditor(MarkEditor):
    def __init__(self, limited: LimitedProvider, editor: MarkEditor) -> None:
        self._limited = limited
        self._editor = editor

    async def write_marks(self, provider_id: str, incarnation: str, installation: str, spec_hash: str) -> None:
        await self._limited.call(
            "write_marks", lambda: self._editor.write_marks(provider_id, incarnation, installation, spec_hash)
        )

    async def remove_marks(self, provider_id: str, incarnation: str) -> None:
        await self._limited.call("remove_marks", lambda: self._editor.remove_marks(provider_id, incarnation))
