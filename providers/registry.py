"""Gives callers the providers of the config by name, and follows the config when it changes."""

import asyncio
import logging
import time
from collections.abc import Callable

from model.errors import ProviderError, ProviderNotConfiguredError
from providers.config import ProviderEntry, ProvidersFile
from providers.contract import Provider
from providers.limits import Deadlines, LimitedProvider
from providers.metrics import MeteredProvider, ProviderMetrics
from providers.types import load_backend

logger = logging.getLogger(__name__)


def build_provider(
    entry: ProviderEntry, installation: str, metrics: ProviderMetrics, deadlines: Deadlines | None = None
) -> Provider:
    """Return the provider of an entry with limits and metrics around it; nothing is asked of the backend."""
    backend = load_backend(entry.type, f"provider {entry.name}")
    provider = backend.create_provider(entry.name, entry.settings)
    return MeteredProvider(entry.name, LimitedProvider(provider, entry, installation, deadlines), metrics)


class ProviderRegistry:
    """The providers of one worker process; used from one event loop.

    A provider is built when it is first asked for, and built anew when its entry has changed: calls in flight on the
    old one finish there, then it is closed.
    """

    def __init__(
        self,
        providers_file: ProvidersFile,
        installation: str,
        *,
        build: Callable[[ProviderEntry, str], Provider],
        refresh_seconds: float = 1.0,
    ) -> None:
        """Use the file's entries.

        Args:
            providers_file: Where entries come from; it is looked at again when a provider or entry is asked for.
            installation: Identity for ``maxInstances``.
            build: Makes the provider of an entry for an installation, usually ``build_provider``.
            refresh_seconds: Shortest time between two looks at the file.
        """
        self._file = providers_file
        self._installation = installation
        self._build = build
        self._refresh_seconds = refresh_seconds
        self._refreshed_at = float("-inf")
        self._lock = asyncio.Lock()
        self._built: dict[str, tuple[str, Provider]] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self._reported_error = ""

    async def get(self, name: str) -> Provider:
        """Return the provider of that name.

        Keep it for one call only, so that a changed config takes effect.

        Raises:
            ProviderNotConfiguredError: The config has no such entry.
        """
        async with self._lock:
            await self._refresh()
            entry = self._file.entry(name)
            built = self._built.get(name)
            if built is not None and (entry is None or entry.entry_hash != built[0]):
                del self._built[name]
                self._close_later(name, built[1])
                built = None
            if entry is None:
                raise ProviderNotConfiguredError(self._missing(name))
            if built is None:
                # Importing a backend's package reads the disk.
                provider = await asyncio.to_thread(self._build, entry, self._installation)
                built = self._built[name] = (entry.entry_hash, provider)
            return built[1]

    async def entry(self, name: str) -> ProviderEntry | None:
        """Return the entry in force of that name."""
        async with self._lock:
            await self._refresh()
            return self._file.entry(name)

    async def entries(self) -> tuple[ProviderEntry, ...]:
        """Return the entries in force."""
        async with self._lock:
            await self._refresh()
            return self._file.entries

    @property
    def config_error(self) -> str:
        """Why the last edit of the providers file was not taken, or "" when its content is in force.

        It is as fresh as the last call of this registry; a worker looks at the file every few seconds.
        """
        return self._file.last_error

    async def close(self) -> None:
        """Close every provider after its calls in flight; no ``get`` comes after this."""
        for name, (_, provider) in self._built.items():
            self._close_later(name, provider)
        self._built.clear()
        if self._closing:
            await asyncio.wait(self._closing)

    async def _refresh(self) -> None:
        if time.monotonic() - self._refreshed_at < self._refresh_seconds:
            return
        if await asyncio.to_thread(self._file.refresh):
            logger.info("the providers config has changed: %s", ", ".join(entry.name for entry in self._file.entries))
        self._refreshed_at = time.monotonic()
        error = self._file.last_error
        if error and error != self._reported_error:
            logger.error("the providers config was edited and not taken, the last good one stays: %s", error)
        self._reported_error = error

    def _missing(self, name: str) -> str:
        known = ", ".join(sorted(entry.name for entry in self._file.entries)) or "none"
        text = f'spec.provider: the providers config has no provider "{name}"; it has: {known}'
        return f"{text}; its last edit was not taken: {self._file.last_error}" if self._file.last_error else text

    def _close_later(self, name: str, provider: Provider) -> None:
        task = asyncio.create_task(_close(name, provider))
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)


async def _close(name: str, provider: Provider) -> None:
    try:
        await provider.close()
    except ProviderError as error:
        logger.warning("provider %s did not close cleanly: %s", name, error)
