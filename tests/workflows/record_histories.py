"""Records the saved histories anew: ``python -m tests.workflows.record_histories [name ...]``.

Each path is played by the real workflow on a real Temporal server, with scripted activities around it. Every run of a
workflow becomes a file ``<name>-<number>.json``.
"""

import asyncio
import logging
import sys
import tempfile
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

from temporalio.client import Client, WorkflowHistory

from app.dev import binaries
from app.dev.temporal import TemporalServer
from model import search_attributes
from tests.workflows import recorded_lives, recorded_lives_more, recorded_sweeps, saved_histories
from tests.workflows.recorded_lives import Handle

Play = Callable[[Client], Awaitable[list[Handle]]]

PATHS: Mapping[str, Play] = {
    "proxy-external": recorded_lives.external_life,
    "proxy-managed": recorded_lives.managed_life,
    "proxy-replaced": recorded_lives.replacement,
    "proxy-rotated": recorded_lives.rotation,
    "proxy-drain-revoked": recorded_lives.drain_revoked,
    "proxy-age": recorded_lives.age,
    "proxy-paused": recorded_lives.pause,
    "proxy-failures": recorded_lives.failures,
    "proxy-no-worker": recorded_lives.nobody_there,
    "proxy-cloud-init": recorded_lives.cloud_init,
    "proxy-stopped": recorded_lives_more.stopped,
    "proxy-dies-at-start": recorded_lives_more.dies_at_start,
    "proxy-recreated": recorded_lives_more.recreated,
    "proxy-skip-cleanup": recorded_lives_more.skipped_cleanup,
    "proxy-deleted-while-created": recorded_lives_more.create_under_way,
    "proxy-leases": recorded_lives_more.leases,
    "lease-broker": recorded_sweeps.broker,
    "lease-broker-drain": recorded_sweeps.broker_drain,
    "orphan-gc": recorded_sweeps.collection,
    "provider-check": recorded_sweeps.checks,
    "drift-check": recorded_sweeps.drift,
}
LONG_PATHS: Mapping[str, Play] = {"proxy-continued": recorded_lives_more.long_life}
"""On a server that suggests to continue as new early."""
_EARLY = {"limit.historyCount.suggestContinueAsNew": "120"}
_AT_ONCE = 4
_MOST_RUNS = 5
"""Of one workflow; what comes later says nothing new."""


async def record(names: Sequence[str], directory: Path) -> None:
    """Record paths by name, all of them when there are none."""
    for paths, settings in ((PATHS, {}), (LONG_PATHS, _EARLY)):
        chosen = {name: play for name, play in paths.items() if not names or name in names}
        if chosen:
            await _record_on_server(chosen, directory / f"server-{len(settings)}", settings)


async def _record_on_server(paths: Mapping[str, Play], directory: Path, settings: Mapping[str, str]) -> None:
    attributes = dict.fromkeys(search_attributes.NAMES, "Keyword")
    server = TemporalServer(
        directory,
        binaries.temporal(),
        namespaces=list(paths),
        search_attributes=attributes,
        dynamic_config=settings,
        synchronous="OFF",
    )
    await server.start()
    turns = asyncio.Semaphore(_AT_ONCE)

    async def one(name: str, play: Play) -> None:
        async with turns:
            client = await Client.connect(server.address, namespace=name)
            histories = [run for handle in await play(client) for run in await _runs(client, handle)]
        for old in saved_histories.DIRECTORY.glob(f"{name}-[0-9]*.json"):
            old.unlink()
        for number, history in enumerate(histories, start=1):
            saved = saved_histories.save(f"{name}-{number:02}", history)
            print(f"{saved.name}: {len(history.events)} events, {saved.stat().st_size // 1024} KiB")

    try:
        # Each to its end, whatever becomes of the others: workers must not outlive the server.
        ends = await asyncio.gather(*(one(name, play) for name, play in paths.items()), return_exceptions=True)
    finally:
        await server.stop()
    failed = [end for end in ends if isinstance(end, BaseException)]
    if failed:
        raise BaseExceptionGroup("paths that could not be recorded", failed)


async def _runs(client: Client, handle: Handle) -> list[WorkflowHistory]:
    """Return the histories of a workflow's first runs."""
    histories: list[WorkflowHistory] = []
    run_id: str | None = None
    while run_id != "":
        histories.append(await client.get_workflow_handle(handle.id, run_id=run_id).fetch_history())
        run_id = histories[-1].events[0].workflow_execution_started_event_attributes.continued_execution_run_id
    return histories[::-1][:_MOST_RUNS]


def main(names: Sequence[str]) -> None:
    unknown = set(names) - set(PATHS) - set(LONG_PATHS)
    if unknown:
        sys.exit(f"there is no path {', '.join(sorted(unknown))}; there are {', '.join([*PATHS, *LONG_PATHS])}")
    # Activities fail on purpose, and the SDK tells each time.
    logging.disable(logging.WARNING)
    saved_histories.DIRECTORY.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as directory:
        asyncio.run(record(names, Path(directory)))


if __name__ == "__main__":
    main(sys.argv[1:])
