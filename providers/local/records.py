"""What the box remembers of each instance: one folder with one record."""

import dataclasses
import json
import os
import secrets
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from model.errors import TransientError
from providers.local import files
from providers.local.process import ProcessIdentity

RECORD_FILE = "instance.json"


@dataclass(frozen=True, kw_only=True)
class InstanceRecord:
    """The identity of one instance on disk, marks included.

    Attributes:
        managed: The mark that it is ours.
        created_at: RFC 3339 with a time zone.
        incarnation: Random id of this start; part of the process's command line.
        process: The running process, or None between the decision to start it and its start.
        deleting_since: Seconds since the epoch, or None.
    """

    name: str
    managed: bool
    uid: str
    installation: str
    spec_hash: str
    created_at: str
    incarnation: str
    address: str
    port: int
    software: str
    process: ProcessIdentity | None = None
    deleting_since: float | None = None


class RecordStore:
    """The folder ``instances`` of the state folder; writers hold the box's lock."""

    def __init__(self, state_dir: Path) -> None:
        self._instances = state_dir / "instances"
        self._trash = state_dir / "trash"

    def prepare(self) -> None:
        """Make the folders."""
        self._instances.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._trash.mkdir(mode=0o700, exist_ok=True)

    def folder(self, name: str) -> Path:
        """Return the instance's folder."""
        return self._instances / name

    def read(self, name: str) -> InstanceRecord | None:
        """Return the record, or None when there is no such instance.

        Raises:
            TransientError: The record is damaged; names the file.
        """
        path = self.folder(name) / RECORD_FILE
        value = files.read_json_object(path)
        return None if value is None else _record_from_json(value, path)

    def write(self, record: InstanceRecord) -> None:
        """Write the record; an instance exists from its first write on."""
        folder = self.folder(record.name)
        folder.mkdir(mode=0o700, exist_ok=True)
        files.write_atomically(folder / RECORD_FILE, json.dumps(dataclasses.asdict(record), indent=1))

    def remove(self, name: str) -> None:
        """Take the instance away in one step; what a killed process left in the trash goes along."""
        self.folder(name).rename(self._trash / f"{name}-{secrets.token_hex(8)}")
        self.empty_trash()

    def empty_trash(self) -> None:
        """Remove what is left of instances that are gone."""
        for leftover in os.listdir(self._trash):
            shutil.rmtree(self._trash / leftover, ignore_errors=True)

    def names(self) -> list[str]:
        """Return the names of all instances, the damaged ones included.

        Raises:
            TransientError: The folder cannot be read.
        """
        # Not ``glob``, which leaves out what it may not read: a name that is missing here is an instance that is gone.
        try:
            return sorted(name for name in os.listdir(self._instances) if self._has_record(name))
        except OSError as error:
            raise TransientError(f"{self._instances}: cannot be listed: {error.strerror}") from None

    def _has_record(self, name: str) -> bool:
        try:
            os.stat(self.folder(name) / RECORD_FILE)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    def all(self) -> Iterator[InstanceRecord]:
        """Yield every record.

        Raises:
            TransientError: One is damaged, or the folder cannot be read.
        """
        for name in self.names():
            record = self.read(name)
            if record is not None:
                yield record


def _record_from_json(value: dict[str, Any], path: Path) -> InstanceRecord:
    try:
        process = value["process"]
        record = InstanceRecord(**{**value, "process": None if process is None else ProcessIdentity(**process)})
        with_zone = datetime.fromisoformat(record.created_at).tzinfo is not None
        texts = (record.name, record.uid, record.installation, record.spec_hash, record.incarnation, record.address)
        sound = with_zone and record.name == path.parent.name and all(isinstance(text, str) for text in texts)
    except (KeyError, TypeError, ValueError):
        sound = False
    if not sound:
        raise TransientError(f"{path}: damaged, it is not an instance's record; repair or remove it")
    return record
