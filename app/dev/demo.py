"""The demo: ``python -m app.dev.demo`` shows the main job on real parts and leaves nothing running."""

import argparse
import asyncio
import contextlib
import fcntl
import logging
import os
import shutil
import signal
import sys
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import TextIO

import aiohttp
import psutil
from temporalio.runtime import LogForwardingConfig, LoggingConfig, Runtime, TelemetryConfig, TelemetryFilter

from api.settings import ApiSettings
from app.dev import binaries
from app.dev.demo_parts import DemoFailedError, somebody_elses_proxy
from app.dev.demo_story import Scene, providers_of, tell
from app.dev.origin import https_origin
from app.dev.ports import LOOPBACK, PortBook
from app.dev.processes import guard
from app.dev.report import progress, say, step
from app.dev.settings import DevSettings
from app.dev.stack import running_stack
from model.errors import EgressProxiesError
from providers.local.provider import stop_all_processes

INTERRUPTED = 130
_LOG_FILE = "demo.log"
_STATE = ("kubernetes", "temporal", "proxies", "external", "origin")


async def run_demo(directory: Path) -> None:
    """Start everything, tell the story, stop everything.

    Args:
        directory: State folder. What an earlier run left in it, processes included, is removed first; what this run
            leaves can be looked at with ``egress-proxies dev --state-dir``.

    Raises:
        EgressProxiesError: Something is missing, did not start, or did not happen.
        aiohttp.ClientError: A server could not be reached.
        TimeoutError: One did not answer in time.
    """
    await _remove_leftovers(directory)
    # Before the demo's own certificate authority is the only one trusted: a build loads modules from the internet.
    if binaries.find(binaries.ETCD) is None or binaries.find(binaries.KUBE_APISERVER) is None:
        with step("building etcd and kube-apiserver from Go modules, once per machine: about 5 minutes"):
            await binaries.control_plane(os.environ, progress)
    before = set(psutil.Process().children(recursive=True))
    try:
        async with _scene(directory) as scene:
            say()
            await tell(scene)
            say()
    finally:
        await asyncio.to_thread(guard.close)
    _check_nothing_is_left(before)


@contextlib.asynccontextmanager
async def _scene(directory: Path) -> AsyncIterator[Scene]:
    ports = PortBook(directory / "ports.json")
    api_port = (await asyncio.to_thread(ports.choose, "lease-api"))["lease-api"]
    settings = DevSettings(
        state_directory=directory,
        controller_manager=False,
        api=ApiSettings(discovery_addr=f"{LOOPBACK}:{api_port}"),
    )
    async with contextlib.AsyncExitStack() as running:
        origin = await running.enter_async_context(https_origin(directory / "origin"))
        running.enter_context(_only_trusting(origin.authority))
        external, external_port = await running.enter_async_context(somebody_elses_proxy(directory / "external", ports))
        stack = await running.enter_async_context(running_stack(settings))
        yield Scene(
            directory=directory,
            stack=stack,
            origin=origin,
            providers=await asyncio.to_thread(providers_of, stack.providers_config),
            external=external,
            external_port=external_port,
        )


@contextlib.contextmanager
def _only_trusting(authority: Path) -> Iterator[None]:
    """Have the prober trust the origin of the demo, through the standard variable."""
    before = os.environ.get("SSL_CERT_FILE")
    os.environ["SSL_CERT_FILE"] = str(authority)
    try:
        yield
    finally:
        if before is None:
            del os.environ["SSL_CERT_FILE"]
        else:
            os.environ["SSL_CERT_FILE"] = before


async def _remove_leftovers(directory: Path) -> None:
    """Start from nothing: servers of a killed run have been ended by its guard, proxies outlive their worker."""
    for box in sorted((directory / "proxies").glob("*")):
        stopped = await stop_all_processes(box)
        if stopped:
            say(f"==> stopped {stopped} proxies ({box.name}) that an earlier run of the demo left running")
    for name in _STATE:
        await asyncio.to_thread(shutil.rmtree, directory / name, ignore_errors=True)


def _check_nothing_is_left(before: set[psutil.Process]) -> None:
    left = [
        f"{process.pid} ({process.name()})"
        for process in psutil.Process().children(recursive=True)
        if process not in before and process.status() != psutil.STATUS_ZOMBIE
    ]
    if left:
        raise DemoFailedError(f"processes that the demo started still run: {', '.join(left)}")


def _alone_in(directory: Path) -> TextIO | None:
    """Return the lock of the state folder, to be kept open, or None while another demo has it."""
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    lock = (directory / ".lock").open("w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.close()
        return None
    return lock


def _log_to(path: Path) -> None:
    """Send what the parts log to a file, Temporal's core included: on the screen is the story."""
    handler = logging.FileHandler(path, mode="w")
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)-7s %(name)s  %(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    core = LogForwardingConfig(logger=logging.getLogger("temporal.core"))
    warnings = TelemetryFilter(core_level="WARN", other_level="ERROR")
    Runtime.set_default(Runtime(telemetry=TelemetryConfig(logging=LoggingConfig(filter=warnings, forwarding=core))))
    for package in ("activities", "api", "app", "leasing", "probing", "providers", "watcher", "workflows"):
        logging.getLogger(package).setLevel(logging.INFO)


async def _until_interrupted(directory: Path) -> int:
    demo = asyncio.ensure_future(run_demo(directory))

    def interrupt() -> None:
        say("==> interrupted: stopping everything")
        # Once is enough: a second cancellation would cut off the cleaning up of the first.
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, say, "    still stopping")
        demo.cancel()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, interrupt)
    try:
        await demo
    except asyncio.CancelledError:
        say("stopped; nothing is left running")
        return INTERRUPTED
    return 0


def main() -> int:
    """Run the demo and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m app.dev.demo", description=__doc__)
    parser.add_argument("--state-dir", type=Path, default=Path(".dev/demo"), help="default: %(default)s")
    directory: Path = parser.parse_args().state_dir
    started = time.monotonic()
    lock = _alone_in(directory)
    if lock is None:
        print(f"another demo runs in {directory}: wait for its end, or give another --state-dir", file=sys.stderr)
        return 1
    code = 1
    try:
        with lock:
            _log_to(directory / _LOG_FILE)
            code = asyncio.run(_until_interrupted(directory))
    except* (EgressProxiesError, aiohttp.ClientError, TimeoutError, OSError) as errors:
        _explain(errors, directory)
    if code == 0:
        say(f"done in {time.monotonic() - started:.0f} s; nothing is left running")
        program = os.path.relpath(Path(sys.executable).with_name("egress-proxies"))
        say(f"to look around in what it did: {program} dev --state-dir {directory}")
    return code


def _explain(errors: BaseExceptionGroup[BaseException], directory: Path) -> None:
    reasons = dict.fromkeys(str(error) or type(error).__name__ for error in _leaves(errors))
    for reason in reasons:
        print(f"the demo failed: {reason}", file=sys.stderr)
    logs = sorted(path for path in directory.rglob("*.log") if path.stat().st_size)
    print("everything was stopped; the logs:", *logs, sep="\n  ", file=sys.stderr)


def _leaves(group: BaseExceptionGroup[BaseException]) -> list[BaseException]:
    leaves: list[BaseException] = []
    for error in group.exceptions:
        leaves += _leaves(error) if isinstance(error, BaseExceptionGroup) else [error]
    return leaves


if __name__ == "__main__":
    sys.exit(main())
