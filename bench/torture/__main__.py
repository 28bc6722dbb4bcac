"""``python -m bench.torture``: kills everything at random under load and says what became of the leases.

The exit code is 1 when a lease was lost or doubled, a proxy had more leases than it may have, a request hung or was
answered with what it should not be, or the fleet is not as the Proxies say afterwards; 2 when the run itself failed.
"""

import argparse
import asyncio
import os
import random
import secrets
import signal
import sys
import tempfile
import time
from pathlib import Path

from app.dev import binaries
from app.dev.binaries import ControlPlaneBinaries
from app.dev.report import progress, say, step
from app.dev.squid import ensure_squid
from app.errors import leaves
from bench import kubectl
from bench.installation import Plan, installation
from bench.results import BenchError
from bench.torture.run import Torture
from bench.torture.totals import Totals
from model.errors import EgressProxiesError
from providers.local.settings import Software

_SPARE_SECONDS = 300.0


def main() -> int:
    """Run it and return the exit code."""
    options = _options()
    say(f"seed {options.seed}: kills and changes come in an order of its own")
    random.seed(options.seed)
    started = time.monotonic()
    totals = Totals()
    failures: list[str] = []
    try:
        asyncio.run(_run(options, totals))
    except* (BenchError, EgressProxiesError) as errors:
        failures += [f"the torture failed: {error}" for error in leaves(errors)]
    except* TimeoutError:
        failures.append("the torture failed: it did not come to its end")
    except* (KeyboardInterrupt, asyncio.CancelledError):
        failures.append("stopped before the end")
    for line in totals.gap_lines():
        say(line)
    if failures:
        say("\n".join(failures))
        return 2
    say(totals.line(time.monotonic() - started))
    return 1 if totals.failed else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.torture", description="Kill everything under load.")
    parser.add_argument("--seconds", type=float, default=300.0, help="how long to kill (default: %(default)g)")
    parser.add_argument("--apis", type=int, default=2, help="replicas of the lease API (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=secrets.randbelow(1 << 32), help="of what happens when")
    return parser.parse_args()


async def _run(options: argparse.Namespace, totals: Totals) -> None:
    task = asyncio.current_task()
    if task is not None:
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    software = Software.SQUID if await ensure_squid(progress) else Software.PROXY_PY
    with step("looking for etcd and kube-apiserver; the first time on a machine they are built, about 5 minutes"):
        found = await binaries.control_plane(os.environ, progress)
    programs = ControlPlaneBinaries(etcd=found.etcd, kube_apiserver=found.kube_apiserver)
    plan = Plan(
        apis=options.apis,
        networks={software: f"127.{random.randrange(100, 200)}.{random.randrange(256)}.0/24"},
        worker_flags=("--drift-check-interval", "10s"),
        watcher_flags=("--relist-interval", "15s"),
    )
    with tempfile.TemporaryDirectory(prefix="egress-proxies-torture-") as directory:
        async with (
            asyncio.timeout(options.seconds + _SPARE_SECONDS),
            installation(Path(directory), programs, [software], plan) as running,
        ):
            await kubectl.run(running, "get", "px")
            await Torture(running, software, totals).run(options.seconds)


if __name__ == "__main__":
    sys.exit(main())
