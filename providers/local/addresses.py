"""Which name has which address.

A name keeps its address while its instance exists and also after a delete, because the provider cannot know whether a
replacement follows. A new name gets the lowest address that nobody has had; only when there is none left, the address
whose instance was deleted longest ago changes its owner.
"""

import errno
import json
import socket
import time
from collections.abc import Collection
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path

from model.errors import PermanentError, QuotaExceededError, TransientError
from providers.local import files
from providers.local.settings import LocalSettings


class Port(StrEnum):
    """What a port of an address is like."""

    FREE = "free"
    HELD = "held by another program"
    ELSEWHERE = "not an address of this machine"
    FORBIDDEN = "not for an unprivileged process"


@dataclass(frozen=True)
class Reservation:
    """Who has an address, and since when its instance is gone, in seconds since the epoch."""

    name: str
    released_at: float | None = None


class AddressBook:
    """The reservations on disk; callers hold the box's lock."""

    def __init__(self, path: Path, settings: LocalSettings, provider_name: str) -> None:
        self._path = path
        self._settings = settings
        self._provider_name = provider_name

    def reserve(self, name: str, port: int, existing: Collection[str]) -> str:
        """Return the address for the instance, reserved on disk.

        Args:
            name: The instance.
            port: Where it will listen.
            existing: Names of all instances there are; reservations of others can be passed on.

        Raises:
            QuotaExceededError: No address is free; the message has the counts.
            PermanentError: This process may not listen on that port.
        """
        book = self._load()
        for address in self._candidates(book, name, existing):
            state = port_state(address, port)
            if state is Port.FORBIDDEN:
                raise PermanentError(f"spec.port: {port} needs a privileged worker; take a port from 1024 on")
            if state is Port.FREE:
                others = {other: one for other, one in book.items() if one.name != name}
                self._save({**others, address: Reservation(name)})
                return address
        raise QuotaExceededError(self._nothing_free(book, port, existing))

    def release(self, name: str) -> None:
        """Note that the instance is gone; its name keeps the address while others are free."""
        book = self._load()
        for address, reservation in book.items():
            if reservation.name == name:
                book[address] = Reservation(name, time.time())
        self._save(book)

    def _candidates(self, book: dict[str, Reservation], name: str, existing: Collection[str]) -> list[str]:
        configured = list(self._settings.addresses())
        own = [address for address in configured if address in book and book[address].name == name]
        fresh = [address for address in configured if address not in book]
        released = [
            (book[address].released_at or 0.0, number, address)
            for number, address in enumerate(configured)
            if address in book and book[address].name not in {name, *existing}
        ]
        return [*own, *fresh, *(address for _, _, address in sorted(released))]

    def _nothing_free(self, book: dict[str, Reservation], port: int, existing: Collection[str]) -> str:
        configured = list(self._settings.addresses())
        taken = {address for address, reservation in book.items() if reservation.name in existing}
        used = sum(1 for address in configured if address in taken)
        states = [port_state(address, port) for address in configured if address not in taken]
        text = (
            f"{used} of {len(configured)} addresses of provider {self._provider_name} are in use, "
            f"{states.count(Port.HELD)} held by other programs on port {port}"
        )
        if elsewhere := states.count(Port.ELSEWHERE):
            text += f", {elsewhere} not on this machine"
        return text + "; add addresses or delete proxies"

    def _load(self) -> dict[str, Reservation]:
        value = files.read_json_object(self._path) or {}
        try:
            return {address: Reservation(**reservation) for address, reservation in value.items()}
        except TypeError:
            raise TransientError(f"{self._path}: damaged, it is not an address book; repair it") from None

    def _save(self, book: dict[str, Reservation]) -> None:
        content = {address: asdict(reservation) for address, reservation in book.items()}
        files.write_atomically(self._path, json.dumps(content, indent=1))


def port_state(address: str, port: int) -> Port:
    """Tell whether a program could listen on that port of that address now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # Connections of an earlier proxy that are still in TIME_WAIT do not count; a listener does.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
            probe.listen(1)
        except OSError as error:
            if error.errno == errno.EADDRNOTAVAIL:
                return Port.ELSEWHERE
            if error.errno in (errno.EACCES, errno.EPERM):
                return Port.FORBIDDEN
            if error.errno == errno.EADDRINUSE:
                return Port.HELD
            raise
    return Port.FREE
