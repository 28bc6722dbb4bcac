"""How long leases stand still while the broker's run continues as a new one, with many leases in its table."""

import asyncio
import contextlib
import itertools
import secrets
import sys
import time
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

from google.protobuf.duration_pb2 import Duration
from temporalio.api.workflowservice.v1 import RegisterNamespaceRequest
from temporalio.client import Client

from app.dev.processes import ChildProcess
from app.dev.report import progress, step
from bench.full_table import full_table
from bench.results import BenchError, Row
from leasing.client import BrokerClient
from model import lease_broker, lease_ids, lease_snapshot, names
from model.errors import UnavailableError
from model.lease_answers import Granted
from model.lease_broker import BrokerSettings

PROXIES = 5000
TARGETS_MILLIS = {1000: 300.0, 25_000: 500.0}
"""Longest pause by number of leases."""
INSTALLATION = "bench-run-changes"
_CLIENTS = 16
_RUN_LENGTH = 80
"""Batches of a run; the server itself suggests a change after thousands of events."""
_SECONDS = 8.0
_LEASE_MILLIS, _RETAIN_MILLIS = 60_000, 900_000
_FIRST_ANSWER_SECONDS = 30.0


async def measure(temporal: Client, directory: Path) -> list[Row]:
    """Measure with each number of leases, each in a fresh broker.

    Args:
        temporal: Of the server; the brokers get namespaces of their own.
        directory: For logs.
    """
    rows = []
    for leases, target in TARGETS_MILLIS.items():
        with step(f"changes of runs with {leases} leases, {PROXIES} proxies, {_CLIENTS} clients"):
            client = await _fresh_namespace(temporal, f"run-changes-{leases}")
            async with lease_worker(client, directory):
                gaps, changes = await gaps_over_changes(client, leases, _SECONDS)
            pauses = sorted(gaps, reverse=True)[:changes]
            progress(f"{changes} changes; pauses in ms: {' '.join(f'{pause * 1000:.0f}' for pause in pauses)}")
        rows.append(Row(name=f"longest_pause_{leases}_leases", value=pauses[0] * 1000, unit="ms", target=target))
        rows.append(Row(name=f"median_pause_{leases}_leases", value=pauses[len(pauses) // 2] * 1000, unit="ms"))
    return rows


@contextlib.asynccontextmanager
async def lease_worker(client: Client, directory: Path) -> AsyncIterator[None]:
    """Run the product's workflow in a process of its own."""
    arguments: list[str | Path] = [client.service_client.config.target_host, client.namespace]
    worker = await ChildProcess.start(
        f"lease-worker-{client.namespace}",
        [sys.executable, "-m", "bench.run_changes_worker", *arguments],
        directory / f"lease-worker-{client.namespace}.log",
    )
    try:
        yield
    finally:
        await worker.stop(3.0)


async def gaps_over_changes(client: Client, leases: int, seconds: float) -> tuple[list[float], int]:
    """Let clients take and release leases of a full table for so long.

    Returns:
        The times between two answers in seconds, and how many changes of runs there were.

    Raises:
        BenchError: No run ended meanwhile.
    """
    broker = await _full_broker(client, leases)
    before = await _run_id(client)
    answers: list[float] = []
    end = time.monotonic() + seconds
    try:
        await asyncio.gather(*(_take_turns(broker, end, answers) for _ in range(_CLIENTS)))
    finally:
        await broker.close()
    changes = await _changes_since(client, before)
    if not changes:
        raise BenchError("no run of the lease broker ended, so there was no pause to measure")
    return [later - earlier for earlier, later in itertools.pairwise(answers)], changes


async def _full_broker(client: Client, leases: int) -> BrokerClient:
    settings = BrokerSettings(continue_as_new_after=_RUN_LENGTH)
    table = full_table(PROXIES, leases, time.time_ns() // 1_000_000)
    await client.start_workflow(
        lease_broker.WORKFLOW_TYPE,
        args=[settings, lease_snapshot.dump(table)],
        id=names.LEASE_BROKER_ID,
        task_queue=names.QUEUE_LEASES,
        task_timeout=lease_broker.TASK_TIMEOUT,
        memo={lease_broker.MEMO_INSTALLATION: INSTALLATION},
    )
    broker = BrokerClient(client, INSTALLATION, settings=settings)
    deadline = time.monotonic() + _FIRST_ANSWER_SECONDS
    while True:
        try:
            await broker.release(_new_id())
        except UnavailableError:
            if time.monotonic() > deadline:
                raise
        else:
            return broker


async def _take_turns(broker: BrokerClient, end: float, answers: list[float]) -> None:
    while time.monotonic() < end:
        lease_id = _new_id()
        # One that is not answered in time is part of the pause that comes out.
        with contextlib.suppress(UnavailableError):
            if not isinstance(await broker.acquire(lease_id, {}, "", _LEASE_MILLIS, _RETAIN_MILLIS), Granted):
                raise BenchError("a lease was refused although slots are free")
            answers.append(time.monotonic())
            await broker.release(lease_id)
            answers.append(time.monotonic())


async def _run_id(client: Client) -> str:
    return (await client.get_workflow_handle(names.LEASE_BROKER_ID).describe()).run_id or ""


async def _changes_since(client: Client, first: str) -> int:
    run_id, changes = await _run_id(client), 0
    while run_id != first:
        handle = client.get_workflow_handle(names.LEASE_BROKER_ID, run_id=run_id)
        started = await anext(aiter(handle.fetch_history_events(page_size=1)))
        run_id = started.workflow_execution_started_event_attributes.continued_execution_run_id
        changes += 1
    return changes


async def _fresh_namespace(temporal: Client, namespace: str) -> Client:
    retention = Duration()
    retention.FromTimedelta(timedelta(days=1))
    request = RegisterNamespaceRequest(namespace=namespace, workflow_execution_retention_period=retention)
    await temporal.workflow_service.register_namespace(request, timeout=timedelta(seconds=30))
    return await Client.connect(temporal.service_client.config.target_host, namespace=namespace)


def _new_id() -> str:
    return lease_ids.from_bytes(secrets.token_bytes(lease_ids.RAW_BYTES))
