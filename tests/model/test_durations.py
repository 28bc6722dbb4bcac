"""Durations as Go writes them."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.durations import format_duration, parse_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0.0),
        ("0s", 0.0),
        ("90s", 90.0),
        ("15m", 900.0),
        ("1h30m", 5400.0),
        ("1h0m0.5s", 3600.5),
        ("1.5h", 5400.0),
        (".5s", 0.5),
        ("1.s", 1.0),
        ("250ms", 0.25),
        ("100us", 0.0001),
        ("100\u00b5s", 0.0001),
        ("100\u03bcs", 0.0001),
        ("5000ns", 0.000005),
        ("30m1h", 5400.0),
        ("876000h", 876_000 * 3600.0),
    ],
)
def test_every_form_of_go_is_read(text: str, seconds: float) -> None:
    assert parse_duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "15",
        "m",
        "s15",
        "1d",
        "1h 30m",
        " 15m",
        "15m ",
        "-15m",
        "1,5h",
        "1.2.3s",
        ".s",
        "1e3s",
        "15M",
        "infs",
        "nans",
        "٣s",
        "1" * 18 + "h",
        "1" * 400 + "s",
        "876001h",
        "876000h1ms",
        "1h" * 900_000,
    ],
    ids=lambda text: text[:12],
)
def test_anything_else_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match="write it like 90s, 15m or 1h30m") as refusal:
        parse_duration(text)
    assert len(str(refusal.value)) < 120
    assert f'"{text[:40]}"' in str(refusal.value)


@pytest.mark.parametrize(
    ("duration", "text"),
    [
        (timedelta(), "0s"),
        (timedelta(seconds=90), "1m30s"),
        (timedelta(minutes=15), "15m"),
        (timedelta(hours=1), "1h"),
        (timedelta(days=1, milliseconds=1), "24h1ms"),
        (timedelta(microseconds=999), "0s"),
    ],
)
def test_a_duration_is_written_shortly(duration: timedelta, text: str) -> None:
    assert format_duration(duration) == text


@given(st.integers(min_value=0, max_value=100 * 365 * 24 * 3_600_000))
def test_what_is_written_reads_back(millis: int) -> None:
    duration = timedelta(milliseconds=millis)
    assert parse_duration(format_duration(duration)) == duration
