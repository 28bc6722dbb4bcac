"""Whether a box is fit to serve: its state folder, its software, its addresses."""

import os
import secrets
import time
from collections.abc import Callable
from pathlib import Path

from model.errors import PermanentError, ProviderError
from model.provider_health import FORBIDDEN, REACHABLE, UNREACHABLE, TargetHealth
from providers.local import software
from providers.local.addresses import Port, port_state
from providers.local.settings import LocalSettings

TARGET = "box"
SOFTWARE_MISSING = "SoftwareMissing"
ADDRESSES_MISSING = "AddressesMissing"

_ANY_PORT = 0


class _NotReadyError(Exception):
    """Carries a reason and a text to the verdict."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


def check_box(settings: LocalSettings, number_of_instances: Callable[[], int]) -> TargetHealth:
    """Return the verdict about a box.

    Args:
        settings: Of the box.
        number_of_instances: Reads the records as every operation does.
    """
    started_at = time.monotonic()
    details: dict[str, str] = {}
    reason, message = REACHABLE, ""
    try:
        details["software"] = _software(settings)
        details["addresses"] = str(_addresses(settings))
        details["instances"] = str(number_of_instances())
        _write_something(settings.state_dir)
    except _NotReadyError as error:
        reason, message = error.reason, str(error)
    except PermissionError as error:
        reason, message = FORBIDDEN, f"{error.filename or settings.state_dir}: {error.strerror}"
    except OSError as error:
        reason, message = UNREACHABLE, f"{error.filename or settings.state_dir}: {error.strerror}"
    except ProviderError as error:
        reason, message = UNREACHABLE, str(error)
    return TargetHealth(
        name=TARGET,
        address=str(settings.state_dir),
        ready=reason == REACHABLE,
        reason=reason,
        message=message,
        latency_millis=round((time.monotonic() - started_at) * 1000),
        details=details,
    )


def _software(settings: LocalSettings) -> str:
    try:
        return software.choose(settings.software).value
    except PermanentError as error:
        raise _NotReadyError(SOFTWARE_MISSING, str(error)) from None


def _addresses(settings: LocalSettings) -> int:
    """Return how many addresses are configured; at least one must be this machine's."""
    number, here = 0, False
    for address in settings.addresses():
        number += 1
        here = here or port_state(address, _ANY_PORT) is Port.FREE
    if not here:
        text = f"local.addresses: none of {number} is an address of this machine"
        raise _NotReadyError(ADDRESSES_MISSING, text)
    return number


def _write_something(folder: Path) -> None:
    """Write as records are written: a full or read-only disk shows here, before a create needs it."""
    path = folder / f".check.{secrets.token_hex(8)}"
    try:
        path.write_text("x" * os.sysconf("SC_PAGE_SIZE"))
    finally:
        path.unlink(missing_ok=True)
