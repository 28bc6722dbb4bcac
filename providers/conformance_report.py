"""A pytest plugin that shows the fault matrix of the conformance suite and writes it to ``build/``."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PROPERTY = "conformance-fault"
"""The property of a test's report: provider, place in its fault points, operation, step, way, how the call ended."""


@dataclass
class Row:
    """One step: where it comes, and how the call ended for each way of breaking."""

    number: int
    cells: dict[str, str] = field(default_factory=dict)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print one matrix per provider."""
    matrices: dict[str, dict[tuple[str, str], Row]] = {}
    for outcome in ("passed", "failed"):
        for report in terminalreporter.stats.get(outcome, []):
            for provider, number, operation, step, way, word in _faults(report):
                row = matrices.setdefault(provider, {}).setdefault((operation, step), Row(number))
                row.number = min(row.number, number)
                # A cell can belong to several tests, the failed ones last: one that fails shows.
                row.cells[way] = "FAILED" if outcome == "failed" else word
    folder = Path(terminalreporter.config.rootpath, "build")
    for provider, rows in sorted(matrices.items()):
        lines = matrix(rows)
        terminalreporter.section(f"faults of provider {provider}: how the call ended before its retry put it right")
        for line in lines:
            terminalreporter.write_line(line)
        folder.mkdir(exist_ok=True)
        name = re.sub(r"[^A-Za-z0-9.-]+", "-", provider).strip("-")
        folder.joinpath(f"conformance-{name}.txt").write_text("\n".join(lines) + "\n")


def matrix(rows: dict[tuple[str, str], Row]) -> list[str]:
    """Return a text table: one line per operation and step, one column per way of breaking."""
    ways = sorted({way for row in rows.values() for way in row.cells})
    table = [["operation", "step", *ways]]
    for (operation, step), row in sorted(rows.items(), key=lambda item: item[1].number):
        table.append([operation, step, *(row.cells.get(way, "-").removesuffix("Error") for way in ways)])
    widths = [max(len(line[column]) for line in table) for column in range(len(table[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in table]


def _faults(report: Any) -> Iterable[Any]:
    for name, value in getattr(report, "user_properties", ()):
        if name == PROPERTY and report.when == "call":
            yield value
