"""Large lists, floods of refusals, and a lease worker that dies: what must not take long."""

import asyncio
import time

from temporalio.client import Client

from app.dev.report import progress, step
from bench.broker_fill import filled
from bench.broker_tasks import task_millis
from bench.installation import LEASE_WORKER, Installation
from bench.load import LoadPlan
from bench.load_scripts import FLOOD, LIST, REFUSALS
from bench.results import Row, percentile
from bench.running_load import run_load
from bench.usage import Usage
from leasing.client import BrokerClient

LISTED, LIST_CLIENTS, LIST_TARGET = 1000, 64, 800.0
CONSIDERED, REFUSED_CLIENTS, REFUSED_TARGET = 10_000, 128, 1000.0
FLOOD_TASK_TARGET_MILLIS = 500.0
MANY_TARGETS = 1000
GAP_TARGET = 3.0
GAP_CLIENTS = 64
_WARM_UP_SECONDS = 1.0
_SECONDS = 3.0
_BEFORE_KILL_SECONDS = 2.0
_AFTER_KILL_SECONDS = 5.0


async def listing(installation: Installation, broker: BrokerClient) -> list[Row]:
    """``GET /v1/proxies`` with many proxies, asked by many at once."""
    port = installation.api_port
    async with filled(broker, LISTED - len((await broker.list_proxies()).proxies), {"kind": "listed"}, free=True):
        with step(f"GET /v1/proxies, {LISTED} proxies, {LIST_CLIENTS} clients"):
            usage = Usage(installation.children)
            plan = LoadPlan(port=port, clients=LIST_CLIENTS, warm_up=_WARM_UP_SECONDS, seconds=_SECONDS, script=LIST)
            load = await run_load(plan)
            progress(usage.spent())
    rate = len(load.millis) / load.seconds
    return [
        Row(name="lists_per_second_1000_proxies", value=rate, unit="1/s", target=LIST_TARGET, at_least=True),
        Row(name="list_p99_1000_proxies", value=percentile(load.millis, 99), unit="ms"),
    ]


async def worker_death(installation: Installation) -> list[Row]:
    """kill -9 of the lease worker under load; a new one is started at once, as a supervisor does."""
    with step(f"kill -9 of the lease worker under {GAP_CLIENTS} clients"):
        seconds = _BEFORE_KILL_SECONDS + _AFTER_KILL_SECONDS
        plan = LoadPlan(
            port=installation.api_port, clients=GAP_CLIENTS, warm_up=_WARM_UP_SECONDS, seconds=seconds, survive=True
        )
        async with asyncio.TaskGroup() as group:
            running = group.create_task(run_load(plan))
            await asyncio.sleep(_WARM_UP_SECONDS + _BEFORE_KILL_SECONDS)
            await installation.parts.kill(LEASE_WORKER)
            await installation.parts.start_again(LEASE_WORKER)
        load = running.result()
        progress(f"{load.unavailable} requests were answered with 503")
    return [Row(name="longest_gap_lease_worker_killed", value=load.longest_gap, unit="s", target=GAP_TARGET)]


async def floods(installation: Installation, broker: BrokerClient, temporal: Client) -> list[Row]:
    """Refused requests over a large table, all for one site and for ever other ones."""
    rows: list[Row] = []
    async with filled(broker, CONSIDERED, {FLOOD: "yes"}, free=False):
        for targets, name in ((1, "one_site"), (MANY_TARGETS, "many_sites")):
            with step(f"refusals, {CONSIDERED} proxies considered, {name.replace('_', ' ')}"):
                rows += await _flood(installation, temporal, targets, name)
    return rows


async def _flood(installation: Installation, temporal: Client, targets: int, name: str) -> list[Row]:
    since = time.time()
    usage = Usage(installation.children)
    plan = LoadPlan(
        port=installation.api_port,
        clients=REFUSED_CLIENTS,
        warm_up=_WARM_UP_SECONDS,
        seconds=_SECONDS,
        script=REFUSALS,
        targets=targets,
        survive=True,
    )
    load = await run_load(plan)
    progress(usage.spent())
    tasks = await task_millis(temporal, since)
    progress(f"{len(tasks)} workflow tasks, median {percentile(tasks, 50):.0f} ms; {load.unavailable} x 503")
    rate, asked = len(load.millis) / load.seconds, REFUSED_TARGET if targets == 1 else None
    return [
        Row(name=f"refusals_per_second_{name}", value=rate, unit="1/s", target=asked, at_least=True),
        Row(name=f"refusals_longest_task_{name}", value=max(tasks), unit="ms", target=FLOOD_TASK_TARGET_MILLIS),
    ]
