import json
from pathlib import Path

import pytest

from bench.results import BenchError, Row, percentile, table, write

ROWS = [
    Row(name="start", value=1.2, unit="s", target=1.5),
    Row(name="rate", value=10, unit="1/s", target=20, at_least=True),
    Row(name="seen", value=3.0, unit="ms"),
]


def test_the_file_is_an_array_of_rows_with_five_keys(tmp_path: Path) -> None:
    path = tmp_path / "build" / "bench.json"
    write(ROWS, path)
    assert json.loads(path.read_text()) == [
        {"name": "start", "value": 1.2, "unit": "s", "target": 1.5, "met": True},
        {"name": "rate", "value": 10, "unit": "1/s", "target": 20, "met": False},
        {"name": "seen", "value": 3.0, "unit": "ms", "target": None, "met": None},
    ]
    assert list(path.parent.iterdir()) == [path]


def test_a_later_run_replaces_the_file(tmp_path: Path) -> None:
    path = tmp_path / "bench.json"
    write(ROWS, path)
    write(ROWS[:1], path)
    assert [row["name"] for row in json.loads(path.read_text())] == ["start"]


@pytest.mark.parametrize(
    ("value", "at_least", "met"), [(5, False, True), (5.1, False, False), (5, True, True), (4.9, True, False)]
)
def test_a_target_counts_as_met_when_it_is_just_reached(value: float, at_least: bool, met: bool) -> None:
    assert Row(name="x", value=value, unit="s", target=5, at_least=at_least).met is met


def test_the_table_shows_which_way_a_target_goes_and_whether_it_is_met() -> None:
    heading, start, rate, seen = table(ROWS).splitlines()
    assert heading.split() == ["name", "value", "unit", "target", "met"]
    assert start.split() == ["start", "1.200", "s", "≤", "1.5", "yes"]
    assert rate.split() == ["rate", "10.000", "1/s", "≥", "20", "NO"]
    assert seen.split() == ["seen", "3.000", "ms"]


def test_percentiles_are_values_that_were_measured() -> None:
    values = [4.0, 1.0, 3.0, 2.0]
    assert [percentile(values, percent) for percent in (0, 50, 75, 99)] == [1.0, 2.0, 3.0, 4.0]


def test_no_percentile_of_nothing() -> None:
    with pytest.raises(BenchError, match="nothing was measured"):
        percentile([], 50)
