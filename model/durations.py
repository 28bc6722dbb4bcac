"""Durations as Go writes them: ``90s``, ``15m``, ``1h30m``."""

import re
from datetime import timedelta

_UNITS = {
    "h": timedelta(hours=1),
    "m": timedelta(minutes=1),
    "s": timedelta(seconds=1),
    "ms": timedelta(milliseconds=1),
    "us": timedelta(microseconds=1),
    "\u00b5s": timedelta(microseconds=1),
    "\u03bcs": timedelta(microseconds=1),
}
"""Go takes the micro sign and the Greek letter."""
_NANOSECONDS_PER_MICROSECOND = 1000
_PART = re.compile("([0-9]+(?:\\.[0-9]*)?|\\.[0-9]+)(h|ms|us|\u00b5s|\u03bcs|ns|m|s)")
_LONGEST = timedelta(days=365 * 100)


def parse_duration(text: str) -> timedelta:
    """Return the duration that ``text`` names; ``0`` alone needs no unit.

    Raises:
        ValueError: It is not one, or is longer than a century.
    """
    if text == "0":
        return timedelta()
    total, at = timedelta(), 0
    while at < len(text):
        part = _PART.match(text, at)
        if part is None or len(part[1]) > 18:
            break
        try:
            total += _duration(float(part[1]), part[2])
        except OverflowError:
            break
        at = part.end()
    if not text or at < len(text) or total > _LONGEST:
        raise ValueError(f'"{text[:40]}" is not a duration; write it like 90s, 15m or 1h30m')
    return total


def _duration(count: float, unit: str) -> timedelta:
    if unit == "ns":
        return timedelta(microseconds=count / _NANOSECONDS_PER_MICROSECOND)
    return count * _UNITS[unit]


def format_duration(duration: timedelta) -> str:
    """Return a duration in the form that ``parse_duration`` reads; parts of a millisecond are dropped."""
    millis = duration // timedelta(milliseconds=1)
    parts = []
    for unit, size in (("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)):
        count, millis = divmod(millis, size)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0s"
