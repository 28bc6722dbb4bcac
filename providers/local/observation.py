"""What state an instance is in, judged by its record and the machine."""

import os
import re
from datetime import UTC, datetime
from pathlib import Path

from model.errors import clean_message
from model.instance import InstanceState
from providers.local import process, software
from providers.local.process import ProcessIdentity
from providers.local.records import InstanceRecord

START_SECONDS = 30.0
"""A proxy that does not listen by then will not."""

_LOG_TAIL_BYTES = 4096
_TELLING = re.compile(r"FATAL|error|cannot", re.IGNORECASE)


class Observer:
    """Judges instances; it remembers who has listened once, so that a list stays cheap."""

    def __init__(self) -> None:
        self._listening: set[str] = set()

    def state(self, folder: Path, record: InstanceRecord) -> tuple[InstanceState, str]:
        """Return the state and a detail for humans."""
        if record.deleting_since is not None:
            return InstanceState.STOPPED, "it is being deleted"
        identity = locate(folder, record)
        if identity is None:
            return _interrupted(record) if record.process is None else (InstanceState.STOPPED, _end(folder, record))
        if record.incarnation in self._listening or process.listens(identity, record.address, record.port):
            self._listening.add(record.incarnation)
            return InstanceState.RUNNING, ""
        if process.age(identity) > START_SECONDS:
            text = f"{record.software} does not listen {START_SECONDS:g} s after its start"
            return InstanceState.STOPPED, _with_log(folder, text)
        return InstanceState.COMING, f"{record.software} is starting"

    def forget(self, record: InstanceRecord) -> None:
        """Drop what is known of an instance that is gone."""
        self._listening.discard(record.incarnation)


def locate(folder: Path, record: InstanceRecord) -> ProcessIdentity | None:
    """Return the running process of the record, also one whose start could not be recorded any more."""
    if record.process is not None:
        return record.process if process.is_alive(record.process) else None
    return process.find_by_last_arguments(software.last_arguments(folder, record))


def _interrupted(record: InstanceRecord) -> tuple[InstanceState, str]:
    age = datetime.now(UTC) - datetime.fromisoformat(record.created_at)
    if age.total_seconds() > START_SECONDS:
        return InstanceState.STOPPED, "its start was interrupted"
    return InstanceState.COMING, "it is being started"


def _end(folder: Path, record: InstanceRecord) -> str:
    return _with_log(folder, f"{record.software} has ended")


def _with_log(folder: Path, text: str) -> str:
    telling = [line.strip() for line in _log_tail(folder / software.LOG_FILE) if _TELLING.search(line)]
    return clean_message("; ".join([text, *telling[-2:]]))


def _log_tail(path: Path) -> list[str]:
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - _LOG_TAIL_BYTES))
            return file.read().decode(errors="replace").splitlines()
    except OSError:
        # The log only adds to the message; the state is known without it.
        return []
