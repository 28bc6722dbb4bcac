"""The boundaries of an operation, a Proxy for each, and what became of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from tests.e2e.gates import Boundary

_MAYBE = "await_instance"
"""Comes to pass unless a proxy serves before its create has returned."""


class Operation(StrEnum):
    """What is under way when something dies."""

    CREATE = "create"
    REPLACE = "replace"
    DELETE = "delete"


_ALWAYS = {"read_proxy", "write_status", "tell_broker"}
_MAKING = {"create_instance", "record_spec_hash", "watch_health"}
ACTIVITIES = {
    Operation.CREATE: _ALWAYS | _MAKING | {"add_finalizer", "look_for_instance"},
    Operation.REPLACE: _ALWAYS | _MAKING | {"drain_proxy", "remove_instance"},
    Operation.DELETE: _ALWAYS | {"remove_instance", "look_for_instance", "release_finalizers"},
}
"""What an operation does at least; what else it does is found by watching one."""


@dataclass
class Cell:
    """One boundary, the Proxy that is held there, and what became of it."""

    boundary: Boundary
    proxy: str
    uid: str = ""
    incarnation: str = ""
    held: bool = False
    problems: list[str] = field(default_factory=list)

    @property
    def may_be_missed(self) -> bool:
        """Whether it depends on the order of events if it comes to that."""
        return self.boundary.occurrence > 1 or self.boundary.activity == _MAYBE

    @property
    def result(self) -> str:
        if self.problems:
            return "; ".join(self.problems)
        return "ok" if self.held else "ok, did not come to it"


def cells_of(operation: Operation, trace: Mapping[str, int]) -> list[Cell]:
    """Return two cells for each time an activity was called."""
    counts = dict(trace)
    if operation is not Operation.DELETE:
        counts.setdefault(_MAYBE, 1)
    return [
        Cell(boundary, boundary.name)
        for activity, count in sorted(counts.items())
        for occurrence in range(1, count + 1)
        for boundary in (Boundary(activity, occurrence, "before"), Boundary(activity, occurrence, "after"))
    ]


def table(title: str, cells: list[Cell], seconds: Mapping[str, float]) -> str:
    """Return the results as text, a line per cell; ``seconds`` is what each part of the run took."""
    width = max((len(str(cell.boundary)) for cell in cells), default=0)
    lines = [f"  {cell.boundary!s:{width}}  {cell.result}" for cell in cells]
    held = sum(cell.held for cell in cells)
    took = ", ".join(f"{part} {passed:.0f} s" for part, passed in seconds.items())
    return "\n".join([f"{title}: {held} of {len(cells)} boundaries held; {took}", *lines])
