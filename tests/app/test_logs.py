"""One line per record, whatever is in it."""

import asyncio
import contextlib
import io
import json
import logging
import sys
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from temporalio.exceptions import ApplicationError

from app.logs import JsonFormatter, TextFormatter, log_to_file, set_up_logs

SECRET = "S3cr3t-xyz"


def record(message: str, *arguments: Any, error: BaseException | None = None) -> logging.LogRecord:
    exc_info = (type(error), error, error.__traceback__) if error is not None else None
    return logging.LogRecord("app.x", logging.WARNING, __file__, 1, message, arguments, exc_info)


def failure() -> ValueError:
    try:
        try:
            raise OSError(f"http://user:{SECRET}@host\nsecond line")
        except OSError as error:
            raise ValueError(f"password={SECRET}") from error
    except ValueError as error:
        return error


def test_a_record_is_one_json_object() -> None:
    line = json.loads(JsonFormatter().format(record("hello %s", "wörld")))
    assert datetime.fromisoformat(line.pop("ts")).tzinfo is not None
    assert line == {"level": "warning", "logger": "app.x", "msg": "hello wörld"}


@pytest.mark.parametrize("text", ["two\nlines", "\r\n\x00\x1b[0m", "\ud800", "\u2028", '"quotes" \\', ""])
def test_any_text_stays_on_one_line(text: str) -> None:
    line = JsonFormatter().format(record("%s", text))
    assert len(line.splitlines()) == 1 or "\u2028" in text
    assert "\n" not in line
    line.encode()
    assert json.loads(line)["msg"] == text.replace("\ud800", "?")


def test_an_exception_is_in_the_same_line_with_its_cause_and_without_secrets() -> None:
    line = JsonFormatter().format(record(f"failed with token={SECRET}", error=failure()))
    assert "\n" not in line
    assert SECRET not in line
    told = json.loads(line)
    assert told["msg"] == "failed with token=***"
    assert "Traceback" in told["error"]
    assert "OSError: http://***@host" in told["error"]
    assert "ValueError: password=***" in told["error"]


def test_a_text_line_is_masked_too() -> None:
    text = TextFormatter().format(record("failed", error=failure()))
    assert SECRET not in text
    assert "WARNING app.x  failed" in text


def test_a_huge_record_is_cut() -> None:
    assert len(JsonFormatter().format(record("x" * 10**6))) < 20_000


@contextlib.contextmanager
def logging_to(stream: io.StringIO, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    monkeypatch.setattr(sys, "stderr", stream)
    try:
        yield
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("format_", "stream", "is_json"),
    [
        ("", io.StringIO, True),
        ("", Terminal, False),
        ("json", Terminal, True),
        ("text", io.StringIO, False),
    ],
)
def test_a_terminal_gets_text_and_anything_else_json(
    format_: str, stream: type[io.StringIO], is_json: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = stream()
    with logging_to(written, monkeypatch):
        set_up_logs(format_)
        logging.getLogger("app.x").info("ours")
        logging.getLogger("somebody.else").info("not told")
        logging.getLogger("somebody.else").warning("told")
    lines = written.getvalue().splitlines()
    assert len(lines) == 2
    assert [line.startswith("{") for line in lines] == [is_json] * 2
    assert "ours" in lines[0]
    assert "told" in lines[1]


def test_lines_in_a_file_are_masked_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "log"
    with logging_to(io.StringIO(), monkeypatch):
        log_to_file(path)
        logging.getLogger("app.x").info("token=%s", SECRET)
        logging.getLogger().handlers[0].close()
    assert "INFO    app.x  token=***" in path.read_text()


def test_only_failures_that_end_an_activity_as_designed_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    written = io.StringIO()
    with logging_to(written, monkeypatch):
        set_up_logs("json")
        logger = logging.getLogger("temporalio.activity")
        for error in (asyncio.CancelledError(), ApplicationError("x", type="TransientError"), ValueError("a defect")):
            logger.warning("Completing activity as failed", exc_info=error)
        logger.warning("something else")
    lines = [json.loads(line) for line in written.getvalue().splitlines()]
    assert [line["msg"] for line in lines] == ["Completing activity as failed", "something else"]
    assert "a defect" in lines[0]["error"]


@pytest.mark.parametrize("formatter", [JsonFormatter(), TextFormatter()])
def test_an_access_line_has_its_facts_and_only_such_a_line_is_not_searched_for_secrets(
    formatter: logging.Formatter,
) -> None:
    facts = {"method": "POST", "route": "/v1/leases", "status": 201, "durationMillis": 1.5}
    access = logging.LogRecord("api", logging.INFO, __file__, 1, "%(method)s %(route)s %(status)s", (facts,), None)
    access.own_facts = facts
    line = formatter.format(access)
    for fact in ("POST", "/v1/leases", "201"):
        assert fact in line
    if isinstance(formatter, JsonFormatter):
        assert json.loads(line).items() >= facts.items()
    failed = record("it failed", error=failure())
    failed.own_facts = facts
    assert SECRET not in formatter.format(failed)
    assert SECRET not in formatter.format(record(f"password={SECRET}"))
