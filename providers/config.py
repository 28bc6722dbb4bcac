"""The providers file: which providers there are, of what type and with which settings."""

import dataclasses
import hashlib
import json
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from model import names
from model.errors import ConfigurationError
from providers import fields, strict_yaml
from providers.types import Settings, load_backend

_COMMON_KEYS = ("name", "type", "taskQueue", "probeTaskQueue", "maxInstances", "maxConcurrentCreates")
_SETTLED_NANOSECONDS = 2_000_000_000
"""A file changed less than this before it was read may change again without a trace in its times and size."""


@dataclass(frozen=True, kw_only=True)
class ProviderEntry:
    """One provider of the config.

    Attributes:
        name: What ``spec.provider`` of a Proxy refers to.
        type: Kind of backend.
        settings: The typed block of that kind.
        task_queue: Queue of create, get, delete and list.
        probe_task_queue: Queue of the probes of its proxies.
        max_instances: Limit for the whole fleet, or None.
        max_concurrent_creates: Limit per worker process, or None.
        entry_hash: 16 hex digits that change with the meaning of the entry, and only then.
    """

    name: str
    type: str
    settings: Settings
    task_queue: str
    probe_task_queue: str
    max_instances: int | None
    max_concurrent_creates: int | None
    entry_hash: str


def parse_providers(data: bytes, name: str, *, require_local_task_queue: bool) -> tuple[ProviderEntry, ...]:
    """Read the content of a providers file.

    Args:
        data: The bytes of the file.
        name: What error messages call the file.
        require_local_task_queue: Whether an entry of type ``local`` must have a ``taskQueue`` of its own. Every worker
            takes from the common queue, and only one of them has the box's processes.

    Raises:
        ConfigurationError: One line with the file, the place and what is wrong there.
    """
    document = strict_yaml.load(data, name)
    try:
        root = fields.mapping({} if document is None else document, "the document")
        fields.check_keys(root, ("providers",), "the document")
        listed = root.get("providers")
        items = fields.sequence([] if listed is None else listed, "providers")
        entries = tuple(
            _parse_entry(item, f"providers[{index}]", require_local_task_queue) for index, item in enumerate(items)
        )
        _check_unique(entries)
    except ConfigurationError as error:
        raise ConfigurationError(f"{name}: {error}") from None
    return entries


def _parse_entry(item: Any, place: str, require_local_task_queue: bool) -> ProviderEntry:
    block = fields.mapping(item, place)
    name = fields.dns_label(block, "name", place)
    type_name = fields.required_string(block, "type", place)
    backend = load_backend(type_name, f"{place}.type")
    fields.check_keys(block, (*_COMMON_KEYS, type_name), place)
    own_block = block.get(type_name)
    own_place = f"{place}.{type_name}"
    settings = backend.parse_settings(fields.mapping({} if own_block is None else own_block, own_place), own_place)
    task_queue = fields.queue_name(block, "taskQueue", place)
    if require_local_task_queue and type_name == "local" and task_queue in ("", names.QUEUE_PROVIDER):
        raise ConfigurationError(f"{place}.taskQueue: a local provider needs a queue of its own, one per box")
    entry = ProviderEntry(
        name=name,
        type=type_name,
        settings=settings,
        task_queue=task_queue or names.QUEUE_PROVIDER,
        probe_task_queue=fields.queue_name(block, "probeTaskQueue", place) or names.QUEUE_PROBES,
        max_instances=fields.optional_positive_integer(block, "maxInstances", place),
        max_concurrent_creates=fields.optional_positive_integer(block, "maxConcurrentCreates", place),
        entry_hash="",
    )
    return dataclasses.replace(entry, entry_hash=_hash(entry))


def _hash(entry: ProviderEntry) -> str:
    values = {
        "name": entry.name,
        "type": entry.type,
        "settings": entry.settings.normalised(),
        "taskQueue": entry.task_queue,
        "probeTaskQueue": entry.probe_task_queue,
        "maxInstances": entry.max_instances,
        "maxConcurrentCreates": entry.max_concurrent_creates,
    }
    text = json.dumps(values, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _check_unique(entries: tuple[ProviderEntry, ...]) -> None:
    places: dict[str, str] = {}
    owners: dict[str, str] = {}
    for index, entry in enumerate(entries):
        place = f"providers[{index}]"
        if entry.name in places:
            raise ConfigurationError(f'{place}.name: "{entry.name}" is already the name of {places[entry.name]}')
        places[entry.name] = place
        resource = entry.settings.exclusive_resource()
        if resource and resource in owners:
            raise ConfigurationError(f"{place}.{entry.type}: {resource} is already used by {owners[resource]}")
        owners[resource] = place


class ProvidersFile:
    """The providers file, read again when it changes.

    Construction and ``refresh`` read the disk: on an event loop, call them through ``asyncio.to_thread``. It starts no
    thread and no watch of its own.
    """

    def __init__(self, path: str | os.PathLike[str], *, require_local_task_queue: bool = True) -> None:
        """Read the file.

        Raises:
            ConfigurationError: It is missing, unreadable or wrong; one line that names it.
        """
        self.path = Path(path)
        self.last_error = ""
        """Why the last edit was not taken, or "" when the content of the file is in force."""
        self._require_local_task_queue = require_local_task_queue
        self._signature: tuple[int, ...] = ()
        self._entries = self._read()

    @property
    def entries(self) -> tuple[ProviderEntry, ...]:
        """The providers in force, in the order of the file."""
        return self._entries

    def entry(self, name: str) -> ProviderEntry | None:
        """Return the provider of that name."""
        return next((entry for entry in self._entries if entry.name == name), None)

    def refresh(self) -> bool:
        """Read the file again if it changed, a swapped symbolic link (ConfigMap mounts) included.

        A file that is missing or wrong keeps the entries in force and is told in ``last_error``.

        Returns:
            Whether the entries in force are others than before.
        """
        if self._signature and self._signature == self._current_signature():
            return False
        before = self._entries
        try:
            self._entries = self._read()
        except ConfigurationError as error:
            self.last_error = str(error)
            return False
        self.last_error = ""
        return self._entries != before

    def _read(self) -> tuple[ProviderEntry, ...]:
        signature = self._current_signature()
        try:
            data = self.path.read_bytes()
        except OSError as error:
            self._signature = ()
            raise ConfigurationError(f"{self.path}: cannot read the providers file: {error.strerror}") from None
        self._signature = signature
        return parse_providers(data, str(self.path), require_local_task_queue=self._require_local_task_queue)

    def _current_signature(self) -> tuple[int, ...]:
        try:
            status = os.stat(self.path)
        except OSError:
            return ()
        if time.time_ns() - status.st_mtime_ns < _SETTLED_NANOSECONDS:
            return ()
        return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
