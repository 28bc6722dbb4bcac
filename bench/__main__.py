"""``python -m bench``: prints a table and writes ``build/bench.json``.

A missed target is a result and no failure: the exit code is 1 only where the benchmark itself failed. What was measured
until then is written all the same.
"""

import argparse
import asyncio
import os
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
from bench import extremes, kubectl, leasing, plot, results, run_changes
from bench.installation import Installation, installation
from bench.provisioning import Provisioning
from bench.ready_watch import ReadyWatch
from bench.results import BenchError, Row
from cluster.connection import ClusterConnection
from cluster.installation import cluster_installation
from leasing.client import BrokerClient
from model.errors import EgressProxiesError
from providers.local.settings import Software

DEFAULT_OUTPUT = Path(__file__).resolve().parents[1] / "build" / "bench.json"
DEFAULT_PLOT = DEFAULT_OUTPUT.with_suffix(".svg")
PARTS = ("starts", "leases", "extremes", "changes")
TOTAL_SECONDS = 340.0


def main() -> int:
    """Run the benchmark and return the exit code."""
    options = _options()
    say(f"{os.cpu_count()} processors shared by servers, proxies and load clients; {_load_average()}")
    rows: list[Row] = []
    code = 1
    try:
        asyncio.run(_until_terminated(options, rows))
        code = 0
    except* (BenchError, EgressProxiesError) as errors:
        for error in leaves(errors):
            say(f"the benchmark failed: {error}")
    except* TimeoutError:
        say(f"the benchmark failed: it was not done within {TOTAL_SECONDS:g} s")
    except* (KeyboardInterrupt, asyncio.CancelledError):
        say("stopped before the end")
    finally:
        results.write(rows, options.output)
        say(f"\n{results.table(rows)}\n\n{_load_average()}; written to {options.output}")
    return code


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measure the system on its real parts.")
    parser.add_argument("--output", type=Path, default=DEFAULT_OUTPUT, help="file for the rows (default: %(default)s)")
    parser.add_argument("--runs", type=int, default=5, help="starts of a single proxy (default: %(default)s)")
    parser.add_argument("--fleet", type=int, default=50, help="proxies applied at once (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=1.2, help="length of one load (default: %(default)s)")
    parser.add_argument("--plot", type=Path, default=DEFAULT_PLOT, help="file for the plot (default: %(default)s)")
    parser.add_argument("--only", choices=PARTS, action="append", help="measure only this; may be given more than once")
    return parser.parse_args()


async def _until_terminated(options: argparse.Namespace, rows: list[Row]) -> None:
    """Run it; SIGTERM ends it as Ctrl-C does, so that everything is stopped then too."""
    task = asyncio.current_task()
    if task is not None:
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    has_squid = await ensure_squid(progress)
    with step("looking for etcd and kube-apiserver; the first time on a machine they are built, about 5 minutes"):
        found = await binaries.control_plane(os.environ, progress)
    # The controller manager only cleans up namespaces, and would take processor time from what is measured.
    programs = ControlPlaneBinaries(etcd=found.etcd, kube_apiserver=found.kube_apiserver)
    software = [Software.PROXY_PY, Software.SQUID] if has_squid else [Software.PROXY_PY]
    with tempfile.TemporaryDirectory(prefix="egress-proxies-bench-") as directory:
        async with asyncio.timeout(TOTAL_SECONDS), installation(Path(directory), programs, software) as running:
            await _measure(running, software, options, rows)


async def _measure(
    running: Installation, software: list[Software], options: argparse.Namespace, rows: list[Row]
) -> None:
    temporal = await Client.connect(running.temporal_address)
    connection = await ClusterConnection.connect(running.kubeconfig)
    try:
        watch = ReadyWatch(connection)
        async with asyncio.TaskGroup() as group:
            watching = group.create_task(watch.run())
            if _wants(options, "starts"):
                await _measure_starts(Provisioning(running, watch, temporal), running, software, options, rows)
            else:
                await Provisioning(running, watch, temporal).fleet(software[-1], options.fleet)
            await _measure_leases(running, temporal, await cluster_installation(connection), options, rows)
            watching.cancel()
    finally:
        await connection.close()


def _wants(options: argparse.Namespace, part: str) -> bool:
    return not options.only or part in options.only


async def _measure_leases(
    running: Installation, temporal: Client, identity: str, options: argparse.Namespace, rows: list[Row]
) -> None:
    broker = BrokerClient(temporal, identity)
    try:
        if _wants(options, "leases"):
            series = await leasing.measure(running, broker, options.seconds)
            rows += leasing.rows(series)
            plot.write(series, options.plot)
        if _wants(options, "extremes"):
            rows += await extremes.worker_death(running)
            rows += await extremes.listing(running, broker)
            rows += await extremes.floods(running, broker, temporal)
        if _wants(options, "changes"):
            rows += await run_changes.measure(temporal, running.directory)
    finally:
        await broker.close()


async def _measure_starts(
    provisioning: Provisioning,
    running: Installation,
    software: list[Software],
    options: argparse.Namespace,
    rows: list[Row],
) -> None:
    """Measure starts; the fleet of the last software stays, for the leases."""
    # A user's kubectl has its discovery cached too.
    await kubectl.run(running, "get", "px")
    for one in software:
        rows += await provisioning.single(one, options.runs)
    for one in software:
        rows += await provisioning.fleet(one, options.fleet)
        if one is not software[-1]:
            with step("deleting them"):
                await provisioning.delete(provisioning.fleet_names(one, options.fleet))


def _load_average() -> str:
    return "load average {:.2f} {:.2f} {:.2f}".format(*os.getloadavg())


if __name__ == "__main__":
    sys.exit(main())
