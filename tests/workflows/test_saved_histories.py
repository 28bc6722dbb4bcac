"""Every path that was recorded once must replay: a running workflow outlives an upgrade."""

import json
import socket
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import WorkflowHistory
from temporalio.converter import DataConverter
from temporalio.worker import UnsandboxedWorkflowRunner
from temporalio.workflow import NondeterminismError

from model import lease_snapshot
from model.lease_broker import BrokerSettings
from model.leases import LeaseTable
from tests.workflows.record_histories import LONG_PATHS, PATHS
from tests.workflows.saved_histories import DIRECTORY, foreign_text, load, paths, replayer
from tests.workflows.test_lease_broker_replay import applied_again

_LARGEST_BYTES = 200_000
_ALL_BYTES = 2_000_000


def runs_of(name: str) -> list[WorkflowHistory]:
    return [load(path) for path in sorted(DIRECTORY.glob(f"{name}-[0-9]*.json"))]


def test_every_path_is_there_and_nothing_else() -> None:
    recorded = {path.stem.rpartition("-")[0] for path in paths()}
    assert recorded == {*PATHS, *LONG_PATHS}


@pytest.mark.parametrize("path", paths(), ids=lambda path: path.stem)
async def test_a_saved_history_replays(path: Path) -> None:
    await replayer().replay_workflow(load(path))


@pytest.mark.parametrize("name", ["lease-broker", "lease-broker-drain"])
def test_every_answer_and_every_table_of_the_broker_follows_from_the_rules(name: str) -> None:
    convert = DataConverter.default.payload_converter
    table, compared = LeaseTable(), 0
    for number, history in enumerate(runs_of(name)):
        started = history.events[0].workflow_execution_started_event_attributes
        settings, *rest = convert.from_payloads(started.input.payloads, [BrokerSettings, bytes])
        assert isinstance(settings, BrokerSettings)
        (snapshot,) = rest or (b"",)
        assert bool(snapshot) == (number > 0)
        # The final table of the run before is what this one was started with.
        assert snapshot == b"" or snapshot == lease_snapshot.dump(table)
        table = lease_snapshot.load(snapshot) if snapshot else LeaseTable()
        results = applied_again(history.events, table)
        compared += len(results)
        assert [again for _, again in results] == [recorded for recorded, _ in results]
    assert compared > 8


def test_they_are_small_and_tell_nothing_of_the_machine_they_were_recorded_on() -> None:
    sizes = {path.name: path.stat().st_size for path in paths()}
    assert {name: size for name, size in sizes.items() if size > _LARGEST_BYTES} == {}
    assert sum(sizes.values()) < _ALL_BYTES
    words = (socket.gethostname(), str(Path.home()), str(DIRECTORY.parents[2]))
    long_words = [word for word in words if len(word) > 3]
    assert {path.name: found for path in paths() if (found := foreign_text(path, *long_words))} == {}


def doctored(body: dict[str, Any], activity: str, other: str) -> WorkflowHistory:
    """Return a history in which the first call of an activity is one of another."""
    scheduled = [event.get("activityTaskScheduledEventAttributes") for event in body["events"]]
    found = next(each for each in scheduled if each is not None and each["activityType"]["name"] == activity)
    found["activityType"]["name"] = other
    return WorkflowHistory.from_json("doctored", body)


@pytest.mark.parametrize(
    ("name", "activity"),
    [
        ("proxy-managed-01", "remove_instance"),
        ("proxy-external-01", "tell_broker"),
        ("orphan-gc-02", "collect_orphan"),
        ("provider-check-01", "publish_provider_health"),
        ("drift-check-01", "poke_proxies"),
        ("lease-broker-drain-01", "prime_broker"),
    ],
)
async def test_a_workflow_that_does_something_else_than_was_recorded_is_found(name: str, activity: str) -> None:
    body = json.loads((DIRECTORY / f"{name}.json").read_text())
    with pytest.raises(NondeterminismError):
        await replayer().replay_workflow(doctored(body, activity, "another"))


async def test_a_changed_step_of_the_code_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same from the other side: the history is as it was, and the workflow asks for something more."""
    from workflows import proxy_steps

    monkeypatch.setattr(proxy_steps, "_record_spec_hash", _does_nothing)
    with pytest.raises(NondeterminismError):
        await replayer(UnsandboxedWorkflowRunner()).replay_workflow(load(DIRECTORY / "proxy-managed-01.json"))


async def _does_nothing(*_arguments: object) -> None:
    return None


def test_a_changed_rule_of_the_leases_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    rank = LeaseTable._rank

    def most_loaded_first(table: LeaseTable, proxy: Any) -> Any:
        regular = rank(table, proxy)
        return regular and (-regular[0], *regular[1:])

    monkeypatch.setattr(LeaseTable, "_rank", most_loaded_first)
    (first, *_) = runs_of("lease-broker")
    assert any(again != recorded for recorded, again in applied_again(first.events, LeaseTable()))
