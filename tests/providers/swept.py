"""A provider in memory that really deletes, and whose check says what the test wants."""

import asyncio
import dataclasses
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from model.errors import NotFoundError
from model.instance import Instance
from model.provider_health import TargetHealth
from providers.config import ProvidersFile
from providers.contract import Checker
from providers.registry import ProviderRegistry
from tests.providers.scripted import ScriptedProvider, instance


class SweptProvider(ScriptedProvider, Checker):
    """Instances by providerID; ``before_delete`` runs first, ``check_with`` answers checks."""

    def __init__(self) -> None:
        super().__init__()
        self.deleted: list[tuple[str, str]] = []
        self.lists = 0
        self.before_delete: Callable[[], None] = lambda: None
        self.targets: list[TargetHealth] = []
        self.check_gate = asyncio.Event()
        self.check_gate.set()

    def add(self, uid: str, *, installation: str = "ours", age: timedelta = timedelta(hours=1)) -> Instance:
        made = dataclasses.replace(
            instance(f"id-{uid}", installation=installation, uid=uid), created_at=datetime.now(UTC) - age
        )
        self.instances[made.provider_id] = made
        return made

    async def get(self, provider_id: str) -> Instance:
        await self._answer()
        if provider_id not in self.instances:
            raise NotFoundError(provider_id)
        return self.instances[provider_id]

    async def delete(self, provider_id: str, incarnation: str) -> None:
        self.before_delete()
        await self._answer()
        found = self.instances.get(provider_id)
        if found is not None and incarnation in ("", found.incarnation):
            del self.instances[provider_id]
            self.deleted.append((provider_id, incarnation))

    async def list_managed(self) -> list[Instance]:
        self.lists += 1
        await self._answer()
        return list(self.instances.values())

    async def check(self) -> list[TargetHealth]:
        await self.check_gate.wait()
        return self.targets


def registry_of(
    directory: Path, providers: dict[str, ScriptedProvider], queues: Iterable[str] = ()
) -> ProviderRegistry:
    """Return a registry whose entries are these providers, on the queues of the same order or the common one."""
    file = directory / "providers.yaml"
    write_entries(file, list(providers), list(queues))
    return ProviderRegistry(
        ProvidersFile(file, require_local_task_queue=False),
        "ours",
        build=lambda entry, _installation: providers[entry.name],
        refresh_seconds=0,
    )


def write_entries(file: Path, names: list[str], queues: list[str]) -> None:
    """Write a providers file with these entries."""
    entries = []
    for index, name in enumerate(names):
        queue = f", taskQueue: {queues[index]}" if index < len(queues) and queues[index] else ""
        local = f"local: {{software: auto, addresses: [127.0.0.2], stateDir: /{name}}}"
        entries.append(f"{{name: {name}, type: local{queue}, {local}}}")
    file.write_text(f"providers: [{', '.join(entries)}]")
