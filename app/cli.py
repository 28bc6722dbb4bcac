"""The command line: ``egress-proxies worker | watcher | api | dev``.

Every flag has an environment variable ``EGRESS_PROXIES_<FLAG>``. Heavy imports wait until a command runs, so that
``--help`` is quick and SIGTERM is heeded from the first moment.
"""

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

import click

from app import flags
from model.errors import ConfigurationError, EgressProxiesError

logger = logging.getLogger(__name__)

_SHUTDOWN_SECONDS = 25.0
_EPILOG = (
    "Temporal is found through its standard variables and profiles (TEMPORAL_ADDRESS, TEMPORAL_NAMESPACE, ...), "
    "Kubernetes through --kubeconfig, the Pod's service account or KUBECONFIG."
)


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110}, epilog=_EPILOG)
@click.version_option(version("egress-proxies"), "--version", message="%(version)s")
def cli() -> None:
    """Run a fleet of HTTP egress proxies for crawlers.

    Start with `dev`: it brings a Kubernetes API server and a Temporal server along. In production run `worker`,
    `watcher` and `api` side by side.
    """


@cli.command(epilog=_EPILOG)
@flags.PROVIDERS_CONFIG
@flags.WORKER
@flags.COMMON
def worker(**options: Any) -> None:
    """Run workflows and activities: provision, probe, lease."""
    from app.options import worker_settings
    from app.worker import run_worker

    _run(options, lambda stop: run_worker(worker_settings(options), stop))


@cli.command(epilog=_EPILOG)
@flags.WATCHER
@flags.COMMON
def watcher(**options: Any) -> None:
    """Watch Proxies and poke their workflows."""
    from app.options import watcher_settings
    from app.watcher import run_watcher

    _run(options, lambda stop: run_watcher(watcher_settings(options), stop))


@cli.command(epilog=_EPILOG)
@flags.API_ADDRESS
@flags.API
@flags.COMMON
def api(**options: Any) -> None:
    """Serve the lease API to crawlers."""
    from app.lease_api import run_lease_api
    from app.options import api_settings

    _run(options, lambda stop: run_lease_api(api_settings(options, os.environb), stop))


@cli.command(epilog=_EPILOG)
@flags.flag(
    "--state-dir",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path(".dev"),
    help="Where all state is kept between runs.",
)
@flags.flag(
    "--kubeconfig",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help="Use this cluster instead of the embedded API server; the CRDs are applied to it.",
)
@flags.flag(
    "--providers-config",
    type=click.Path(path_type=Path, dir_okay=False),
    help="The providers file; default: one `local` provider for each proxy software that is installed.",
)
@flags.flag(
    "--controller-manager/--no-controller-manager", default=True, help="Build the controller manager if missing."
)
@flags.DRIFT_CHECK_INTERVAL
@flags.COLLECTION
@flags.PROVIDER_CHECK
@flags.WATCHER
@flags.DEV_API_ADDRESS
@flags.API
@flags.flag("--log-format", type=click.Choice(["json", "text"]), help="Default: text on a terminal, json elsewhere.")
def dev(**options: Any) -> None:
    """Run everything on this machine: Kubernetes API server, Temporal, worker, watcher and API.

    Ctrl-C stops all of it, the proxies too. The next run goes on with the same state.
    """
    from app.dev.stack import run_dev
    from app.options import dev_settings

    _run(options, lambda stop: run_dev(dev_settings(options, os.environb), stop))


def _run(options: dict[str, Any], start: Callable[[asyncio.Event], Awaitable[None]]) -> None:
    """Run a process until SIGTERM or SIGINT; end with one line and exit code 1 where it cannot be run."""
    from temporalio.runtime import Runtime

    from app.errors import leaves
    from app.logs import set_up_logs
    from app.telemetry import temporal_runtime

    set_up_logs(options.get("log_format") or "")
    Runtime.set_default(temporal_runtime())
    try:
        asyncio.run(_until_signalled(start))
    except* EgressProxiesError as errors:
        for error in leaves(errors):
            click.echo(f"egress-proxies: {error}", err=True)
        sys.exit(2 if isinstance(leaves(errors)[0], ConfigurationError) else 1)


class StopEvent(asyncio.Event):
    """Set by a signal; it knows whether the process has started so far that it heeds it."""

    is_heeded = False

    async def wait(self) -> Literal[True]:
        """Return once it is set."""
        self.is_heeded = True
        return await super().wait()


async def _until_signalled(start: Callable[[asyncio.Event], Awaitable[None]]) -> None:
    stop = StopEvent()
    signalled = asyncio.Event()
    loop = asyncio.get_running_loop()
    running = asyncio.ensure_future(start(stop))

    def on_signal() -> None:
        if signalled.is_set() or not stop.is_heeded:
            # Told twice, or still starting: a process that waits for Temporal has nothing to hand over.
            running.cancel()
        signalled.set()
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal)
    waiting = asyncio.ensure_future(signalled.wait())
    await asyncio.wait((running, waiting), return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    if not signalled.is_set():
        return await running
    try:
        async with asyncio.timeout(_SHUTDOWN_SECONDS):
            await running
    except (TimeoutError, asyncio.CancelledError):
        logger.warning("stopped before everything had ended")


def main() -> None:
    """Run the command line. SIGTERM ends the process from the first moment, as PID 1 of a container too."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    cli()


if __name__ == "__main__":
    main()
