"""``python -m bench.fleet``: a fleet of local proxies created, edited (all replaced) and deleted.

Prints the times, what the API server was asked for and the history events per Proxy, and writes the rows as
``python -m bench`` does. The exit code is 1 when the run failed.
"""

import argparse
import asyncio
import os
import random
import signal
import sys
import tempfile
from pathlib import Path

from temporalio.client import Client

from app.dev import binaries
from app.dev.binaries import ControlPlaneBinaries
from app.dev.report import progress, say, step
from app.dev.squid import ensure_squid
from app.errors import leaves
from bench import kubectl, results
from bench.fleet_run import FleetRun
from bench.installation import Plan, installation
from bench.results import BenchError, Row
from model.errors import EgressProxiesError
from providers.local.settings import Software

DEFAULT_OUTPUT = Path(__file__).resolve().parents[1] / "build" / "fleet.json"


def main() -> int:
    """Run it and return the exit code."""
    options = _options()
    rows: list[Row] = []
    code = 1
    try:
        asyncio.run(_run(options, rows))
        code = 0
    except* (BenchError, EgressProxiesError) as errors:
        for error in leaves(errors):
            say(f"the run failed: {error}")
    except* (KeyboardInterrupt, asyncio.CancelledError):
        say("stopped before the end")
    finally:
        results.write(rows, options.output)
        say(f"\n{results.table(rows)}\n\nwritten to {options.output}")
    return code


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.fleet", description="Create, replace and delete a fleet.")
    parser.add_argument("--proxies", type=int, default=200, help="how many, 250 at most (default: %(default)s)")
    parser.add_argument(
        "--software",
        type=Software,
        choices=[Software.SQUID, Software.PROXY_PY],
        help="what they run (default: squid where it is installed, which takes less)",
    )
    parser.add_argument("--seconds", type=float, default=600.0, help="limit for each phase (default: %(default)g)")
    parser.add_argument("--output", type=Path, default=DEFAULT_OUTPUT, help="file for the rows (default: %(default)s)")
    options = parser.parse_args()
    if not 1 <= options.proxies <= 250:
        parser.error(f"--proxies must be from 1 to 250, not {options.proxies}")
    return options


async def _run(options: argparse.Namespace, rows: list[Row]) -> None:
    task = asyncio.current_task()
    if task is not None:
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    software = options.software
    if software is not Software.PROXY_PY:
        has_squid = await ensure_squid(progress)
        software = Software.SQUID if has_squid or software is Software.SQUID else Software.PROXY_PY
    with step("looking for etcd and kube-apiserver; the first time on a machine they are built, about 5 minutes"):
        found = await binaries.control_plane(os.environ, progress)
    programs = ControlPlaneBinaries(etcd=found.etcd, kube_apiserver=found.kube_apiserver)
    rows += await measure(programs, software, options.proxies, options.seconds)


async def measure(programs: ControlPlaneBinaries, software: Software, proxies: int, seconds: float) -> list[Row]:
    """Run a fleet in an installation of its own and return the rows.

    Raises:
        BenchError: A phase did not come to its end in ``seconds``.
        ProcessFailedError: A part did not become ready.
    """
    plan = Plan(networks={software: f"127.{random.randrange(100, 200)}.{random.randrange(256)}.0/24"})
    with tempfile.TemporaryDirectory(prefix="egress-proxies-fleet-") as directory:
        async with installation(Path(directory), programs, [software], plan) as running:
            await kubectl.run(running, "get", "px")
            temporal = await Client.connect(running.temporal_address)
            phases, memory = await FleetRun(running, software, temporal, seconds).run(proxies)
    rows = [row for phase in phases for row in phase.rows()]
    name = f"fleet_{proxies}_memory_of_one_{software.value}"
    return [*rows, Row(name=name, value=memory, unit="MiB")]


if __name__ == "__main__":
    sys.exit(main())
