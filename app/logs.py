"""Logs: JSON lines in production, plain lines on a terminal."""

import json
import logging
import sys
from datetime import UTC, datetime

from model.errors import cut, mask_secrets

_LINE_LIMIT = 16 * 1024


class JsonFormatter(logging.Formatter):
    """One JSON object per record, with the keys ``ts``, ``level``, ``logger``, ``msg`` and, for errors, ``error``.

    What looks like a credential is masked here too: a traceback repeats the words of libraries.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record."""
        line = {
            "ts": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "msg": mask_secrets(cut(record.getMessage(), _LINE_LIMIT)),
        }
        if record.exc_info:
            line["error"] = mask_secrets(cut(self.formatException(record.exc_info), _LINE_LIMIT))
        return json.dumps(line, ensure_ascii=False)


class TextFormatter(logging.Formatter):
    """Plain lines with the time of day, masked like the JSON ones."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)-7s %(name)s  %(message)s", "%H:%M:%S")

    def format(self, record: logging.LogRecord) -> str:
        """Return the lines of a record."""
        return mask_secrets(super().format(record))


def set_up_logs(format_: str, level: int = logging.INFO) -> None:
    """Send every log line to stderr.

    Args:
        format_: ``json``, ``text``, or "" for text on a terminal and JSON elsewhere.
        level: Lowest level of our own lines; libraries are held to warnings.
    """
    handler = logging.StreamHandler(sys.stderr)
    if format_ == "text" or (not format_ and sys.stderr.isatty()):
        handler.setFormatter(TextFormatter())
    else:
        handler.setFormatter(JsonFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    for package in ("activities", "api", "app", "cluster", "leasing", "probing", "providers", "watcher", "workflows"):
        logging.getLogger(package).setLevel(level)
