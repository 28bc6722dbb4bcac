"""The demo: ``python -m app.dev.demo`` shows the main job on real parts and leaves nothing running."""

import argparse
import asyncio
import contextlib
import os
import shutil
import signal
import sys
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import aiohttp
import psutil
from temporalio.runtime import Runtime

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
from app.dev.state_lock import alone_in
from app.errors import leaves
from app.logs import log_to_file
from app.telemetry import temporal_runtime
from model.errors import ConfigurationError, EgressProxiesError
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
    with contextlib.ExitStack() as held:
        try:
            held.enter_context(alone_in(directory, "demo"))
        except ConfigurationError as error:
            print(error, file=sys.stderr)
            return 1
        return _run(directory)


def _run(directory: Path) -> int:
    started = time.monotonic()
    Runtime.set_default(temporal_runtime())
    log_to_file(directory / _LOG_FILE)
    code = 1
    try:
        code = asyncio.run(_until_interrupted(directory))
    except* (EgressProxiesError, aiohttp.ClientError, TimeoutError, OSError) as errors:
        _explain(errors, directory)
    if code == 0:
        say(f"done in {time.monotonic() - started:.0f} s; nothing is left running")
        program = os.path.relpath(Path(sys.executable).with_name("egress-proxies"))
        say(f"to look around in what it did: {program} dev --state-dir {directory}")
    return code


def _explain(errors: BaseExceptionGroup[BaseException], directory: Path) -> None:
    reasons = dict.fromkeys(str(error) or type(error).__name__ for error in leaves(errors))
    for reason in reasons:
        print(f"the demo failed: {reason}", file=sys.stderr)
    logs = sorted(path for path in directory.rglob("*.log") if path.stat().st_size)
    print("everything was stopped; the logs:", *logs, sep="\n  ", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
