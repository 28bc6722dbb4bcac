"""Logs: JSON lines in production, plain lines on a terminal."""

import asyncio
import json
import logging
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from temporalio.exceptions import FailureError

from api.access_log import OWN_FACTS
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
        }
        if (facts := _own_facts(record)) is not None:
            return json.dumps({**line, "msg": "request", **facts})
        line["msg"] = mask_secrets(cut(record.getMessage(), _LINE_LIMIT))
        if record.exc_info:
            line["error"] = mask_secrets(cut(self.formatException(record.exc_info), _LINE_LIMIT))
        return json.dumps(line, ensure_ascii=False)


class TextFormatter(logging.Formatter):
    """Plain lines, masked like the JSON ones.

    Args:
        time_format: Of the time at their beginning; None means the date too.
    """

    def __init__(self, time_format: str | None = None) -> None:
        super().__init__("%(asctime)s %(levelname)-7s %(name)s  %(message)s", time_format)

    def format(self, record: logging.LogRecord) -> str:
        """Return the lines of a record."""
        line = super().format(record)
        return line if _own_facts(record) is not None else mask_secrets(line)


def _own_facts(record: logging.LogRecord) -> dict[str, Any] | None:
    """Return the fields of a record that holds nothing but our own words, None for any other."""
    facts: dict[str, Any] | None = None if record.exc_info else getattr(record, OWN_FACTS, None)
    return facts


class _ExpectedFailures(logging.Filter):
    """Drops what Temporal's SDK says of activities that ended as designed: cancelled, or with an error of ours.

    Both are in the workflow's history, with their message; anything else is a defect and stays.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        return not isinstance(error, asyncio.CancelledError | FailureError)


_OURS = ("activities", "api", "app", "cluster", "leasing", "probing", "providers", "watcher", "workflows")


def set_up_logs(format_: str) -> None:
    """Send every log line to stderr.

    Args:
        format_: ``json``, ``text``, or "" for text on a terminal and JSON elsewhere.
    """
    handler = logging.StreamHandler(sys.stderr)
    if format_ == "text" or (not format_ and sys.stderr.isatty()):
        handler.setFormatter(TextFormatter("%H:%M:%S"))
    else:
        handler.setFormatter(JsonFormatter())
    _send_to(handler)


def log_to_file(path: Path) -> None:
    """Send every log line to a new file as text."""
    handler = logging.FileHandler(path, mode="w")
    handler.setFormatter(TextFormatter())
    _send_to(handler)


def _send_to(handler: logging.Handler) -> None:
    """Have our own lines from INFO on, and those of libraries from WARNING on, at one handler alone."""
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    logging.getLogger("temporalio.activity").addFilter(_ExpectedFailures())
    for package in _OURS:
        logging.getLogger(package).setLevel(logging.INFO)
