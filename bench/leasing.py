"""Leases per second: the product beside the same handlers over a table in memory, under the same load in one run."""

import asyncio
import json
import sys
from collections.abc import Mapping
from pathlib import Path

from temporalio.client import Client

from app.dev.ports import PortBook
from app.dev.processes import ChildProcess
from app.dev.report import progress, step
from bench.installation import Installation
from bench.load import Load
from bench.memory_broker import encode_proxies
from bench.results import BenchError, Row, percentile
from bench.usage import Usage
from leasing.client import BrokerClient

ACQUIRE_P50_TARGET_MILLIS = 20.0
CLIENTS = (1, 64)
DURABLE = ""
IN_MEMORY = "in_memory_"
_WARM_UP_SECONDS = 1.0
_SPARE_SECONDS = 30.0


async def measure(installation: Installation, temporal: Client, installation_id: str, seconds: float) -> list[Row]:
    """Return the rows for every number of clients; two rounds, so that a slow moment does not hit one side alone."""
    memory, port = await _start_memory(installation, await _proxies(temporal, installation_id))
    ports = {DURABLE: installation.api_port, IN_MEMORY: port}
    rows: list[Row] = []
    try:
        usage = Usage({**installation.children, "in-memory": memory})
        for clients in CLIENTS:
            with step(f"leases/s, {clients} client{'s' if clients > 1 else ''}: each acquired, then released"):
                loads = {side: [await _load(ports[side], clients, seconds)] for side in ports}
                for side in ports:
                    loads[side].append(await _load(ports[side], clients, seconds))
                rows += _rows(clients, loads)
        progress(usage.spent())
    finally:
        await memory.stop()
    return rows


async def _proxies(temporal: Client, installation_id: str) -> str:
    broker = BrokerClient(temporal, installation_id)
    try:
        return encode_proxies((await broker.list_proxies()).proxies)
    finally:
        await broker.close()


async def _start_memory(installation: Installation, proxies: str) -> tuple[ChildProcess, int]:
    path = installation.directory / "proxies.json"
    await asyncio.to_thread(path.write_text, proxies)
    port = PortBook(installation.directory / "ports.json").choose("memory")["memory"]
    return await start_memory_broker(path, port, installation.directory / "logs" / "memory.log"), port


async def start_memory_broker(proxies: Path, port: int, log: Path) -> ChildProcess:
    """Start the in-memory reference and wait until it listens."""

    async def listens() -> bool:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.close()
        return True

    command: list[str | Path] = [sys.executable, "-m", "bench.memory_broker", proxies, str(port)]
    return await ChildProcess.start("memory", command, log, ready=listens, deadline=30.0)


async def _load(port: int, clients: int, seconds: float) -> Load:
    return await run_load(port, clients, _WARM_UP_SECONDS, seconds)


async def run_load(port: int, clients: int, warm_up: float, seconds: float) -> Load:
    """Run the clients in a process of their own.

    Raises:
        BenchError: A request was not answered with success, or not in time.
    """
    arguments = (str(port), str(clients), str(warm_up), str(seconds))
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "bench.load", *arguments, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    try:
        async with asyncio.timeout(warm_up + seconds + _SPARE_SECONDS):
            output, problem = await process.communicate()
    except TimeoutError:
        raise BenchError("the load clients did not end in time") from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode != 0:
        raise BenchError(f"the load clients failed: {problem.decode('utf-8', 'replace').strip()[-1000:]}")
    return Load(**json.loads(output))


def _rows(clients: int, loads: Mapping[str, list[Load]]) -> list[Row]:
    rates = {side: _rate(loads[side]) for side in loads}
    of = f"{clients}_client{'s' if clients > 1 else ''}"
    rows = []
    for side in loads:
        millis = [value for load in loads[side] for value in load.acquire_millis]
        target = ACQUIRE_P50_TARGET_MILLIS if side == DURABLE and clients == 1 else None
        rows += [
            Row(name=f"{side}leases_per_second_{of}", value=rates[side], unit="1/s"),
            Row(name=f"{side}acquire_p50_{of}", value=percentile(millis, 50), unit="ms", target=target),
            Row(name=f"{side}acquire_p99_{of}", value=percentile(millis, 99), unit="ms"),
        ]
        took = sum(load.cpu_seconds for load in loads[side]) / sum(
            load.seconds + _WARM_UP_SECONDS for load in loads[side]
        )
        each = ", ".join(f"{_rate([load]):.0f}/s" for load in loads[side])
        progress(f"{side or 'durable_'}rounds: {each}; the clients took {took * 100:.0f} % of a core")
    ratio = rates[DURABLE] / rates[IN_MEMORY]
    return [*rows, Row(name=f"durable_to_in_memory_ratio_{of}", value=ratio, unit="ratio")]


def _rate(loads: list[Load]) -> float:
    return sum(len(load.acquire_millis) for load in loads) / sum(load.seconds for load in loads)
