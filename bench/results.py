"""The rows of a run: a table for people and a file for tools."""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any


class BenchError(Exception):
    """The benchmark itself failed; a missed target is no failure."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One measured number.

    Attributes:
        target: What it should be at most, or at least; None where nothing is asked of it.
        at_least: Whether more is better.
    """

    name: str
    value: float
    unit: str
    target: float | None = None
    at_least: bool = False

    @property
    def met(self) -> bool | None:
        """Whether the target is met; None without one."""
        if self.target is None:
            return None
        return self.value >= self.target if self.at_least else self.value <= self.target

    def as_json(self) -> dict[str, Any]:
        """Return the row as the file has it."""
        return {"name": self.name, "value": self.value, "unit": self.unit, "target": self.target, "met": self.met}


def percentile(values: Sequence[float], percent: float) -> float:
    """Return the smallest value that so many percent of all do not exceed."""
    if not values:
        raise BenchError("nothing was measured")
    ordered = sorted(values)
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]


def write(rows: Sequence[Row], path: Path) -> None:
    """Write the file, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f"{path.name}.new")
    temporary.write_text(json.dumps([row.as_json() for row in rows], indent=2) + "\n")
    temporary.replace(path)


def table(rows: Sequence[Row]) -> str:
    """Return the rows as an aligned table."""
    heading = ("name", "value", "unit", "target", "met")
    lines = [heading, *(_cells(row) for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(heading))]
    return "\n".join(_aligned(line, widths) for line in lines)


def _cells(row: Row) -> tuple[str, str, str, str, str]:
    target = "" if row.target is None else f"{'≥' if row.at_least else '≤'} {row.target:g}"
    met = {None: "", True: "yes", False: "NO"}[row.met]
    return row.name, f"{row.value:.3f}" if row.value < 100 else f"{row.value:.0f}", row.unit, target, met


def _aligned(cells: Sequence[str], widths: Sequence[int]) -> str:
    name, value, *rest = (
        cell.rjust(width) if column == 1 else cell.ljust(width)
        for column, (cell, width) in enumerate(zip(cells, widths, strict=True))
    )
    return "  ".join((name, value, *rest)).rstrip()
