"""The numbers of a run and what they are worth."""

import dataclasses
from collections import Counter
from dataclasses import dataclass, field

FAILURES = ("overcommits", "lost", "doubled", "hung", "unexpected")
"""Counts of which every one is a failure."""


@dataclass(kw_only=True)
class Totals:
    """What the clients have seen.

    Attributes:
        answers: How requests ended, by a word for each way.
        longest_gaps: Longest time without a grant in seconds, by kind of kill.
        kills: How often each kind was killed.
        problems: What was wrong with the fleet afterwards, a sentence each.
    """

    answers: Counter[str] = field(default_factory=Counter)
    longest_gaps: dict[str, float] = field(default_factory=dict)
    kills: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)

    def note_gap(self, kind: str, seconds: float) -> None:
        """Take in one kill."""
        self.kills[kind] += 1
        self.longest_gaps[kind] = max(seconds, self.longest_gaps.get(kind, 0.0))

    @property
    def failed(self) -> bool:
        """Whether a lease was lost or doubled, a proxy overcommitted, or the fleet is not as it should be."""
        return bool(self.problems) or any(self.answers[name] for name in FAILURES)

    def gap_lines(self) -> list[str]:
        """Return a line per kind of kill."""
        return [
            f"kill -9 of {kind}: {self.kills[kind]} times, longest gap without a grant {seconds:.2f} s"
            for kind, seconds in sorted(self.longest_gaps.items())
        ]

    def line(self, seconds: float) -> str:
        """Return the one line that a run ends with."""
        failures = ", ".join(f"{self.answers[name]} {name}" for name in FAILURES)
        others = ", ".join(f"{count} {name}" for name, count in sorted(self.answers.items()) if name not in FAILURES)
        verdict = "FAILED" if self.failed else "passed"
        kills = sum(self.kills.values())
        fleet = f"{len(self.problems)} problems of the fleet"
        return f"torture {verdict}: {failures}, {fleet}; {kills} kills in {seconds:.0f} s; {others}"


@dataclass(frozen=True, kw_only=True)
class CrowdSettings:
    """What the process of the clients is told at its start.

    Attributes:
        ports: Of the API's replicas.
        clients: How many lease from each part of the fleet, by the part's name.
        ttl_seconds: Of every lease.
        hold_seconds: The longest time a lease is held.
    """

    ports: list[int]
    clients: dict[str, int]
    ttl_seconds: int = 20
    hold_seconds: float = 1.0

    def as_json(self) -> dict[str, object]:
        """Return it as keyword arguments."""
        return dataclasses.asdict(self)
