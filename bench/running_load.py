"""Load clients and servers of leases as processes."""

import asyncio
import dataclasses
import json
import sys
from pathlib import Path

from app.dev.processes import ChildProcess
from bench.load import HOST, Load, LoadPlan
from bench.results import BenchError

_SPARE_SECONDS = 30.0
_READY_SECONDS = 30.0


async def run_load(plan: LoadPlan) -> Load:
    """Run the clients in a process of their own.

    Raises:
        BenchError: A request was not answered as it should be, or not in time.
    """
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "bench.load", json.dumps(dataclasses.asdict(plan))),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(plan.warm_up + plan.seconds + _SPARE_SECONDS):
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


async def start_broker(kind: str, proxies: Path, port: int, log: Path, *arguments: str) -> ChildProcess:
    """Start ``bench.<kind>_broker`` and wait until it listens.

    Raises:
        ProcessFailedError: It did not become ready.
    """

    async def listens() -> bool:
        _, writer = await asyncio.open_connection(HOST, port)
        writer.close()
        return True

    command: list[str | Path] = [sys.executable, "-m", f"bench.{kind}_broker", proxies, str(port), *arguments]
    return await ChildProcess.start(kind, command, log, ready=listens, deadline=_READY_SECONDS)
