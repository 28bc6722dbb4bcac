"""The ``local`` provider: the box's operations, each in a thread of its own."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import ParamSpec, TypeVar

from model.errors import TransientError
from model.instance import Instance
from model.provider_health import TargetHealth
from providers.contract import Checker, CreateRequest, MarkEditor, Provider
from providers.local.box import Box
from providers.local.settings import LocalSettings, Software

P = ParamSpec("P")
T = TypeVar("T")


class LocalProvider(Provider, Checker, MarkEditor):
    """Runs one forward proxy per instance on this machine; see ``providers.contract`` for what each method holds.

    Instances outlive the worker. Several workers of one box may share the state folder.
    """

    def __init__(self, name: str, settings: LocalSettings) -> None:
        self._box = Box(name, settings)

    async def create(self, request: CreateRequest) -> Instance:
        """Start the process, or adopt the one that is there.

        Raises:
            NameTakenError: The name's record carries another uid or installation.
            QuotaExceededError: No address is free.
            PermanentError: ``placement`` or ``cloudInit`` is set, or squid is asked for and not installed.
            TransientError: The earlier instance is still going away, or the state folder cannot be used.
        """
        return await _in_thread(self._box.create, request)

    async def find(self, name: str) -> Instance | None:
        """Return the box's instance of that name."""
        return await _in_thread(self._box.find, name)

    async def get(self, provider_id: str) -> Instance:
        """Return the instance: coming until its port accepts connections, stopped when its process has ended.

        Raises:
            NotFoundError: It is gone.
            PermanentError: The id is malformed.
            TransientError: It belongs to another box, or its record is damaged.
        """
        return await _in_thread(self._box.get, provider_id)

    async def delete(self, provider_id: str, incarnation: str) -> None:
        """Ask the process to end; after 5 s the next call or ``get`` kills it.

        Raises:
            PermanentError: The id is malformed.
            TransientError: It belongs to another box, or its record is damaged.
        """
        await _in_thread(self._box.delete, provider_id, incarnation)

    async def list_managed(self) -> list[Instance]:
        """Return every instance of the box.

        Raises:
            TransientError: A record is damaged; names the file.
        """
        return await _in_thread(self._box.list_managed)

    async def check(self) -> list[TargetHealth]:
        """Return one verdict: the box can keep its state, start its software and listen on its addresses."""
        return [await _in_thread(self._box.check)]

    async def write_marks(self, provider_id: str, incarnation: str, installation: str, spec_hash: str) -> None:
        """Write the marks into the instance's record.

        Raises:
            NotFoundError: There is no such incarnation.
            PermanentError: The id is malformed.
            TransientError: It belongs to another box, or its record is damaged.
        """
        await _in_thread(self._box.write_marks, provider_id, incarnation, installation, spec_hash)

    async def remove_marks(self, provider_id: str, incarnation: str) -> None:
        """Take the marks out of the instance's record; its process runs on.

        Raises:
            PermanentError: The id is malformed.
            TransientError: It belongs to another box, or its record is damaged.
        """
        await _in_thread(self._box.remove_marks, provider_id, incarnation)

    async def close(self) -> None:
        """Do nothing: the provider holds nothing between calls."""


def create_provider(name: str, settings: LocalSettings) -> Provider:
    """Return the provider of a config entry; the disk is first touched by a call."""
    return LocalProvider(name, settings)


async def stop_all_processes(state_dir: Path, grace_seconds: float = 6.0) -> int:
    """End every proxy of the box and keep what it remembers, so that each is found stopped and replaced later.

    Args:
        state_dir: The box's ``stateDir``.
        grace_seconds: From SIGTERM to SIGKILL, and from there to giving up.

    Returns:
        How many were running.

    Raises:
        TransientError: A process does not end, or a record is damaged.
    """
    settings = LocalSettings(software=Software.AUTO, networks=(), state_dir=state_dir)
    return await _in_thread(Box("local", settings).stop_all, grace_seconds)


async def _in_thread(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run one operation of the box in a thread; what the disk or the kernel refuse is worth another try."""
    try:
        return await asyncio.to_thread(function, *args, **kwargs)
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        raise TransientError(f"{place}{error.strerror or type(error).__name__}") from error
