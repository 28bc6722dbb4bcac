"""One box: its instances, their processes and addresses. Everything here blocks; ``provider.py`` calls it in threads.

Order of a start, each step on disk before the next: address, record without a process, configuration, process, record
with the process. A worker that dies in between leaves either a record whose next ``create`` goes on from there, or a
running process whose command line has the record's incarnation.
"""

import base64
import dataclasses
import logging
import secrets
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from model.errors import NameTakenError, NotFoundError, TransientError
from model.instance import Instance, InstanceState
from model.provider_health import TargetHealth
from providers.contract import CreateRequest
from providers.local import files, identifiers, process, software
from providers.local.addresses import AddressBook
from providers.local.checking import check_box
from providers.local.locking import BoxLock
from providers.local.observation import Observer, locate
from providers.local.process import ProcessIdentity
from providers.local.records import InstanceRecord, RecordStore
from providers.local.requests import check_name, check_request
from providers.local.settings import LocalSettings
from providers.local.spawning import spawn

logger = logging.getLogger(__name__)

KILL_AFTER_SECONDS = 5.0
"""From SIGTERM to SIGKILL; squid takes 3 s to leave with ``shutdown_lifetime 1 seconds``."""
BOX_ID_FILE = "box-id"
_POLL_SECONDS = 0.02


class Box:
    """The instances under one state folder."""

    def __init__(self, provider_name: str, settings: LocalSettings) -> None:
        self._settings = settings
        self._records = RecordStore(settings.state_dir)
        self._addresses = AddressBook(settings.state_dir / "addresses.json", settings, provider_name)
        self._lock = BoxLock(settings.state_dir / "lock")
        self._observer = Observer()
        self._box_id = ""

    def create(self, request: CreateRequest) -> Instance:
        """See ``Provider.create``."""
        check_request(request)
        with self._locked():
            record = self._records.read(request.name)
            if record is not None:
                record = self._adopt(record, request)
            if record is None:
                record = self._new_record(request)
                self._records.write(record)
                record = self._spawn(record)
            elif record.process is None:
                record = self._resume(record)
            return self._observe(record)

    def find(self, name: str) -> Instance | None:
        """See ``Provider.find``."""
        check_name(name)
        self._prepare()
        record = self._pushed(self._records.read(name))
        return None if record is None else self._observe(record)

    def get(self, provider_id: str) -> Instance:
        """See ``Provider.get``."""
        name = self._name_in(provider_id)
        record = self._pushed(self._records.read(name))
        if record is None:
            raise NotFoundError(f"{provider_id} is gone")
        return self._observe(record)

    def delete(self, provider_id: str, incarnation: str) -> None:
        """See ``Provider.delete``."""
        name = self._name_in(provider_id)
        with self._locked():
            record = self._records.read(name)
            if record is None:
                self._records.empty_trash()
            if record is None or incarnation not in ("", record.incarnation):
                return
            if record.deleting_since is None:
                record = dataclasses.replace(record, deleting_since=time.time())
                self._records.write(record)
                self._signal(record, signal.SIGTERM)
            self._push_deletion(record)

    def list_managed(self) -> list[Instance]:
        """See ``Provider.list_managed``."""
        self._prepare()
        records = [self._pushed(record) for record in self._records.all() if record.managed]
        return [self._observe(record) for record in records if record is not None]

    def write_marks(self, provider_id: str, incarnation: str, installation: str, spec_hash: str) -> None:
        """See ``MarkEditor.write_marks``."""
        name = self._name_in(provider_id)
        with self._locked():
            record = self._records.read(name)
            if record is None or record.incarnation != incarnation:
                raise NotFoundError(f"incarnation {incarnation} of {provider_id} is gone")
            marked = dataclasses.replace(record, installation=installation, spec_hash=spec_hash or record.spec_hash)
            self._records.write(marked)

    def remove_marks(self, provider_id: str, incarnation: str) -> None:
        """See ``MarkEditor.remove_marks``."""
        name = self._name_in(provider_id)
        with self._locked():
            record = self._records.read(name)
            if record is not None and record.incarnation == incarnation:
                bare = dataclasses.replace(record, managed=False, uid="", installation="", spec_hash="")
                self._records.write(bare)

    def check(self) -> TargetHealth:
        """See ``Checker.check``; the box is the one target."""
        return check_box(self._settings, self._number_of_instances)

    def _number_of_instances(self) -> int:
        with self._locked():
            return len(self._records.names())

    def stop_all(self, grace_seconds: float) -> int:
        """End the process of every instance and keep the records.

        Returns:
            How many were running.

        Raises:
            TransientError: One survived SIGKILL for ``grace_seconds``.
        """
        with self._locked():
            running = [found for record in self._records.all() if (found := self._locate(record)) is not None]
            for identity in running:
                process.send(identity, signal.SIGTERM)
        left = _wait_until_gone(running, grace_seconds)
        for identity in left:
            process.send(identity, signal.SIGKILL)
        if left := _wait_until_gone(left, grace_seconds):
            raise TransientError(f"processes do not end: {', '.join(str(identity.pid) for identity in left)}")
        return len(running)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        self._prepare()
        with self._lock.held():
            yield

    def _prepare(self) -> None:
        path = self._settings.state_dir / BOX_ID_FILE
        if self._box_id:
            # A folder that was unmounted or emptied under a running worker proves of no instance that it is gone.
            if _read_box_id(path) != self._box_id:
                raise TransientError(f"{path}: this box's state was taken away or changed; bring it back")
            return
        self._records.prepare()
        with self._lock.held():
            files.remove_abandoned(self._settings.state_dir)
            self._box_id = _read_or_make_box_id(path)

    def _name_in(self, provider_id: str) -> str:
        box_id, name = identifiers.parse(provider_id)
        self._prepare()
        if box_id != self._box_id:
            raise TransientError(f"{provider_id} belongs to box {box_id}, serve it from a worker there")
        return name

    def _adopt(self, record: InstanceRecord, request: CreateRequest) -> InstanceRecord | None:
        """Return the record if it is ours to go on with, None if it was on its way out and is gone now."""
        if record.uid != request.uid:
            raise NameTakenError(f"instance {record.name} carries another uid ({record.uid})")
        if record.installation not in ("", request.installation):
            raise NameTakenError(f"instance {record.name} carries another installation ({record.installation})")
        if record.deleting_since is not None:
            if self._push_deletion(record) is None:
                return None
            raise TransientError(f"the earlier instance {record.name} is still going away")
        if not record.installation:
            record = dataclasses.replace(record, installation=request.installation)
            self._records.write(record)
        return record

    def _new_record(self, request: CreateRequest) -> InstanceRecord:
        chosen = software.choose(self._settings.software)
        return InstanceRecord(
            name=request.name,
            managed=True,
            uid=request.uid,
            installation=request.installation,
            spec_hash=request.spec_hash,
            created_at=datetime.now(UTC).isoformat(),
            incarnation=secrets.token_hex(8),
            address=self._addresses.reserve(request.name, request.port, self._records.names()),
            port=request.port,
            software=chosen.value,
        )

    def _resume(self, record: InstanceRecord) -> InstanceRecord:
        """Go on with a start that was interrupted."""
        identity = self._locate(record)
        if identity is not None:
            return self._record_process(record, identity)
        address = self._addresses.reserve(record.name, record.port, self._records.names())
        if address != record.address:
            record = dataclasses.replace(record, address=address)
            self._records.write(record)
        return self._spawn(record)

    def _spawn(self, record: InstanceRecord) -> InstanceRecord:
        identity = spawn(self._records.folder(record.name), record)
        logger.info("started %s for %s on %s:%d", record.software, record.name, record.address, record.port)
        return self._record_process(record, identity)

    def _record_process(self, record: InstanceRecord, identity: ProcessIdentity) -> InstanceRecord:
        record = dataclasses.replace(record, process=identity)
        self._records.write(record)
        return record

    def _locate(self, record: InstanceRecord) -> ProcessIdentity | None:
        return locate(self._records.folder(record.name), record)

    def _pushed(self, record: InstanceRecord | None) -> InstanceRecord | None:
        """Push a deletion that is under way; None when there is nothing left."""
        if record is None or record.deleting_since is None:
            return record
        with self._locked():
            current = self._records.read(record.name)
            if current is None or current.deleting_since is None:
                return current
            return self._push_deletion(current)

    def _push_deletion(self, record: InstanceRecord) -> InstanceRecord | None:
        if self._locate(record) is None:
            software.remove_shared_memory(record)
            self._addresses.release(record.name)
            self._records.remove(record.name)
            self._observer.forget(record)
            return None
        if time.time() - (record.deleting_since or 0.0) > KILL_AFTER_SECONDS:
            self._signal(record, signal.SIGKILL)
        return record

    def _signal(self, record: InstanceRecord, number: signal.Signals) -> None:
        identity = self._locate(record)
        if identity is None:
            return
        try:
            process.send(identity, number)
        except PermissionError:
            raise TransientError(f"not allowed to end process {identity.pid} of instance {record.name}") from None

    def _observe(self, record: InstanceRecord) -> Instance:
        state, message = self._observer.state(self._records.folder(record.name), record)
        return Instance(
            provider_id=identifiers.provider_id(self._box_id, record.name),
            incarnation=record.incarnation,
            name=record.name,
            state=state,
            ip=record.address if state is InstanceState.RUNNING else "",
            uid=record.uid,
            installation=record.installation,
            spec_hash=record.spec_hash,
            created_at=datetime.fromisoformat(record.created_at),
            message=message,
        )


def _read_or_make_box_id(path: Path) -> str:
    if found := _read_box_id(path):
        return found
    value = base64.b32encode(secrets.token_bytes(10)).decode().lower()
    files.write_atomically(path, value + "\n")
    return value


def _read_box_id(path: Path) -> str:
    """Return the id, or "" when there is no file."""
    try:
        value = path.read_bytes().decode(errors="replace").strip()
    except FileNotFoundError:
        return ""
    if not identifiers.is_box_id(value):
        raise TransientError(f"{path}: damaged, it is not a box id; restore it")
    return value


def _wait_until_gone(identities: list[ProcessIdentity], seconds: float) -> list[ProcessIdentity]:
    deadline = time.monotonic() + seconds
    while (left := [one for one in identities if process.is_alive(one)]) and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)
    return left
