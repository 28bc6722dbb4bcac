"""Small state files that are whole or absent, whenever the process or the machine dies."""

import json
import os
import re
import secrets
from pathlib import Path
from typing import Any

from model.errors import TransientError

_TEMPORARY = re.compile(r"\..+\.[0-9a-f]{16}")


def write_atomically(path: Path, data: str) -> None:
    """Replace the file's content; once this returns it survives a power cut."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def remove_abandoned(folder: Path) -> None:
    """Remove what writers have left that were killed before their file was whole; none may be at work now."""
    for name in os.listdir(folder):
        if _TEMPORARY.fullmatch(name):
            (folder / name).unlink(missing_ok=True)


def read_json_object(path: Path) -> dict[str, Any] | None:
    """Return the JSON object in the file, or None when there is no file.

    Raises:
        TransientError: It cannot be read or is not a JSON object; names the file.
    """
    try:
        value = json.loads(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise TransientError(f"{path}: cannot be read: {error.strerror}") from None
    except ValueError:
        raise TransientError(f"{path}: damaged, it is not JSON; repair or remove it") from None
    if not isinstance(value, dict):
        raise TransientError(f"{path}: damaged, it is not a JSON object; repair or remove it")
    return value


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
