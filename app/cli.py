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
from datetime import timedelta
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

import click

from model.durations import format_duration, parse_duration
from model.errors import ConfigurationError, EgressProxiesError

logger = logging.getLogger(__name__)

PREFIX = "EGRESS_PROXIES_"
_SHUTDOWN_SECONDS = 25.0
_EPILOG = (
    "Temporal is found through its standard variables and profiles (TEMPORAL_ADDRESS, TEMPORAL_NAMESPACE, ...), "
    "Kubernetes through --kubeconfig, the Pod's service account or KUBECONFIG."
)


class DurationType(click.ParamType[timedelta]):
    """A duration as Go writes it.

    Args:
        at_least: The shortest one that is taken.
    """

    name = "duration"

    def __init__(self, at_least: timedelta = timedelta()) -> None:
        self._at_least = at_least

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> timedelta:
        """Return the duration, or fail with a message that shows how to write one."""
        if isinstance(value, timedelta):
            return value
        try:
            duration = parse_duration(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)
        if duration < self._at_least:
            self.fail(f"{value} is too short; the least is {format_duration(self._at_least)}", param, ctx)
        return duration


DURATION = DurationType()
INTERVAL = DurationType(at_least=timedelta(seconds=1))


def flag(name: str, *parameter: str, **attributes: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return an option with its environment variable; both are shown in the help."""
    default = attributes.get("default")
    if isinstance(default, timedelta):
        attributes["default"] = format_duration(default)
    variable = PREFIX + name.partition("/")[0].removeprefix("--").replace("-", "_").upper()
    return click.option(name, *parameter, envvar=variable, show_envvar=True, show_default=True, **attributes)


def flags(*decorators: Callable[..., Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return one decorator for several options, shown in this order."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        for decorator in reversed(decorators):
            function = decorator(function)
        return function

    return decorate


_common = flags(
    flag(
        "--kubeconfig",
        type=click.Path(path_type=Path, dir_okay=False),
        help="Kubernetes credentials; without it the Pod's service account, then KUBECONFIG.",
    ),
    flag("--proxy-namespace", default="", help="Only Proxies of this namespace; empty means all."),
    flag(
        "--installation",
        default="",
        help="Name of this installation, 1-63 of a-z, 0-9 and '-'; empty means the uid of the namespace kube-system. "
        "Instances of other installations are never touched.",
    ),
    flag("--metrics-bind-address", default="0", help="Where /metrics is served, for instance :8080; 0 means nowhere."),
    flag(
        "--health-probe-bind-address", default=":8081", help="Where /healthz and /readyz are served; 0 means nowhere."
    ),
    flag("--log-format", type=click.Choice(["json", "text"]), help="Default: text on a terminal, json elsewhere."),
)

_providers_config = flag(
    "--providers-config",
    type=click.Path(path_type=Path, dir_okay=False),
    required=True,
    help="The providers file (YAML). It is read again when it changes.",
)

_drift_check_interval = flag(
    "--drift-check-interval",
    type=INTERVAL,
    default=timedelta(minutes=2),
    help="How often the providers' instances are compared with the Proxies.",
)

_worker = flags(
    flag(
        "--task-queue",
        "task_queues",
        multiple=True,
        help="Serve only this Temporal task queue; may be given more than once. Default: all of this installation.",
    ),
    _drift_check_interval,
    flag(
        "--max-proxies-per-worker",
        type=click.IntRange(1, 100_000),
        default=2000,
        help="How many proxies this worker probes.",
    ),
    flag(
        "--no-target-check",
        is_flag=True,
        help="Blame the proxy without asking the probe's target directly; for workers without a way out of their own.",
    ),
)

_watcher = flags(
    flag(
        "--relist-interval", type=INTERVAL, default=timedelta(minutes=10), help="How often all Proxies are listed anew."
    ),
)

_api_address = flag("--discovery-addr", default=":8090", help="Where the lease API listens.")
_dev_api_address = flag("--discovery-addr", default="127.0.0.1:8090", help="Where the lease API listens.")
_api = flags(
    flag("--lease-cooldown", type=DURATION, default=timedelta(minutes=15), help="How long a reported proxy rests."),
    flag("--max-lease-ttl", type=INTERVAL, default=timedelta(hours=1), help="The longest lease."),
    flag(
        "--allow-unauthenticated",
        is_flag=True,
        help="Serve beyond loopback without a token (DISCOVERY_TOKEN in the environment).",
    ),
)


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110}, epilog=_EPILOG)
@click.version_option(version("egress-proxies"), "--version", message="%(version)s")
def cli() -> None:
    """Run a fleet of HTTP egress proxies for crawlers.

    Start with `dev`: it brings a Kubernetes API server and a Temporal server along. In production run `worker`,
    `watcher` and `api` side by side.
    """


@cli.command(epilog=_EPILOG)
@_providers_config
@_worker
@_common
def worker(**options: Any) -> None:
    """Run workflows and activities: provision, probe, lease."""
    from app.options import worker_settings
    from app.worker import run_worker

    _run(options, lambda stop: run_worker(worker_settings(options), stop))


@cli.command(epilog=_EPILOG)
@_watcher
@_common
def watcher(**options: Any) -> None:
    """Watch Proxies and poke their workflows."""
    from app.options import watcher_settings
    from app.watcher import run_watcher

    _run(options, lambda stop: run_watcher(watcher_settings(options), stop))


@cli.command(epilog=_EPILOG)
@_api_address
@_api
@_common
def api(**options: Any) -> None:
    """Serve the lease API to crawlers."""
    from app.lease_api import run_lease_api
    from app.options import api_settings

    _run(options, lambda stop: run_lease_api(api_settings(options, os.environb), stop))


@cli.command(epilog=_EPILOG)
@flag(
    "--state-dir",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path(".dev"),
    help="Where all state is kept between runs.",
)
@flag(
    "--kubeconfig",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help="Use this cluster instead of the embedded API server; the CRDs are applied to it.",
)
@flag(
    "--providers-config",
    type=click.Path(path_type=Path, dir_okay=False),
    help="The providers file; default: one `local` provider for each proxy software that is installed.",
)
@flag("--controller-manager/--no-controller-manager", default=True, help="Build the controller manager if missing.")
@_drift_check_interval
@_watcher
@_dev_api_address
@_api
@flag("--log-format", type=click.Choice(["json", "text"]), help="Default: text on a terminal, json elsewhere.")
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
