"""A replay must come to the same answers and the same table, and the rules alone decide them."""

import asyncio
from collections.abc import Sequence

import pytest
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client, WorkflowHistory
from temporalio.converter import DataConverter
from temporalio.worker import Replayer, UnsandboxedWorkflowRunner, WorkflowRunner
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner

from leasing.client import BrokerClient
from model import lease_snapshot, names
from model.lease_batch import apply_batch
from model.lease_broker import BrokerSettings
from model.lease_index import LeasableProxy, Rank
from model.lease_keys import lease_id_of_key, request_hash, session_hash
from model.lease_operations import Probe
from model.lease_wire import decode_operations
from model.leases import LeaseTable
from tests.leasing.brokers import COOLDOWN, INSTALLATION, acquire, new_id, prime, transition
from tests.workflows.lease_broker_worker import running_broker
from workflows.lease_broker import LeaseBroker


async def play(client: Client) -> list[WorkflowHistory]:
    """Put all kinds of operations through a broker of short runs, in the sandbox; return its runs, first to last."""
    broker = BrokerClient(client, INSTALLATION, settings=BrokerSettings(continue_as_new_after=8))
    async with running_broker(client, sandbox=True):
        await prime(broker, 5, max_leases=12)
        for turn in range(12):
            leases = await asyncio.gather(*(acquire(broker, f"site-{turn % 3}", ttl=400) for _ in range(4)))
            await broker.release(leases[0][0])
            await broker.report(leases[1][0], "banned", "", 300)
            await broker.acquire(new_id(), {"geo": "nowhere"}, "", 1000, COOLDOWN)
            await play_specially(broker, turn, leases[2][0])
            await broker.tell(transition("ns/0001", counter=turn + 2, max_leases=turn, instance=str(turn // 4)), 10)
            await asyncio.sleep(0.1)
        await broker.close()
    return await all_runs(client)


async def play_specially(broker: BrokerClient, turn: int, lease_id: str) -> None:
    """Keys, sessions, renewals, doubts."""
    key, other = request_hash("this"), request_hash("that")
    session = session_hash(str(turn % 2))
    keyed = lease_id_of_key(f"key-{turn}")
    for body in (key, key, other):
        await broker.acquire(keyed, {}, "", 600, COOLDOWN, body=body)
    for strict in (True, False):
        await broker.acquire(new_id(), {}, "", 600, COOLDOWN, session=session, strict=strict)
    await broker.renew(lease_id, 700)
    await broker.look(lease_id)
    await broker.report(lease_id, "captcha", "gated", 500)
    await broker.report(lease_id, "transport_error", "", 500)
    proxies = await broker.doubted_proxies()
    await broker.tell_probes([Probe(*proxies[0], turn % 2 * 300)] if proxies else [])
    if turn % 3 == 0:
        await broker.release(keyed)


async def all_runs(client: Client) -> list[WorkflowHistory]:
    histories: list[WorkflowHistory] = []
    run_id: str | None = None
    while run_id != "":
        handle = client.get_workflow_handle(names.LEASE_BROKER_ID, run_id=run_id)
        histories.append(await handle.fetch_history())
        run_id = histories[-1].events[0].workflow_execution_started_event_attributes.continued_execution_run_id
    return histories[::-1]


def applied_again(events: Sequence[HistoryEvent], table: LeaseTable) -> list[tuple[str, str]]:
    """Apply a history's batches by the rules alone; return the recorded answers with the new ones."""
    convert = DataConverter.default.payload_converter
    answers: dict[str, tuple[str, str]] = {}
    results: list[tuple[str, str]] = []
    started = 0
    for event in events:
        if event.HasField("workflow_task_started_event_attributes"):
            started = event.event_time.ToMilliseconds()
        elif event.HasField("workflow_execution_update_accepted_event_attributes"):
            request = event.workflow_execution_update_accepted_event_attributes.accepted_request
            (batch,) = convert.from_payloads(request.input.args.payloads, [str])
            answers[request.meta.update_id] = ("", apply_batch(table, decode_operations(batch), started))
        elif event.HasField("workflow_execution_update_completed_event_attributes"):
            completed = event.workflow_execution_update_completed_event_attributes
            (recorded,) = convert.from_payloads(completed.outcome.success.payloads, [str])
            results.append((recorded, answers[completed.meta.update_id][1]))
    return results


async def test_histories_replay_and_every_answer_and_table_follows_from_the_rules(temporal_client: Client) -> None:
    histories = await play(temporal_client)
    assert len(histories) > 3
    runners: list[WorkflowRunner] = [SandboxedWorkflowRunner(), UnsandboxedWorkflowRunner()]
    for runner in runners:
        replayer = Replayer(workflows=[LeaseBroker], workflow_runner=runner)
        for history in histories:
            await replayer.replay_workflow(history)
    convert = DataConverter.default.payload_converter
    table = LeaseTable()
    compared = 0
    for history in histories:
        started = history.events[0].workflow_execution_started_event_attributes
        _, snapshot = convert.from_payloads(started.input.payloads, [BrokerSettings, bytes])
        assert snapshot == b"" or snapshot == lease_snapshot.dump(table)
        table = lease_snapshot.load(snapshot) if snapshot else LeaseTable()
        results = applied_again(history.events, table)
        compared += len(results)
        for recorded, again in results:
            assert again == recorded
    assert compared > 30


async def test_a_history_of_other_rules_is_told_apart_by_its_answers(
    temporal_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The comparison above can fail: the replayer alone notices nothing of a changed rule."""
    histories = await play(temporal_client)
    rank = LeaseTable._rank

    def most_loaded_first(table: LeaseTable, proxy: LeasableProxy) -> Rank | None:
        regular = rank(table, proxy)
        return regular and (-regular[0], *regular[1:])

    monkeypatch.setattr(LeaseTable, "_rank", most_loaded_first)
    await Replayer(workflows=[LeaseBroker], workflow_runner=UnsandboxedWorkflowRunner()).replay_workflow(histories[0])
    results = applied_again(histories[0].events, LeaseTable())
    assert any(again != recorded for recorded, again in results)
