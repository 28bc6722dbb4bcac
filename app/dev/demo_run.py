"""What every demo does around its story: alone in a folder, interruptible, explained when it fails, nothing left."""

import asyncio
import contextlib
import os
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import aiohttp
import psutil
from temporalio.runtime import Runtime

from app.dev.demo_parts import DemoFailedError
from app.dev.report import say
from app.dev.state_lock import alone_in
from app.errors import leaves
from app.logs import log_to_file
from app.telemetry import temporal_runtime
from model.errors import ConfigurationError, EgressProxiesError

INTERRUPTED = 130
_LOG_FILE = "demo.log"

Demo = Callable[[Path], Awaitable[None]]


def run_alone(directory: Path, demo: Demo) -> int:
    """Run a demo that nobody else runs in its folder, say how it ended, and return the exit code.

    Args:
        directory: State folder of the demo; its log goes there.
        demo: Is given the folder, and cancelled on SIGINT and SIGTERM.
    """
    with contextlib.ExitStack() as held:
        try:
            held.enter_context(alone_in(directory, "demo"))
        except ConfigurationError as error:
            print(error, file=sys.stderr)
            return 1
        return _run(directory, demo)


@contextlib.contextmanager
def only_trusting(authority: Path) -> Iterator[None]:
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


def check_nothing_is_left(before: set[psutil.Process]) -> None:
    """Check that no child of this process runs that did not run before.

    Raises:
        DemoFailedError: One does.
    """
    left = [
        f"{process.pid} ({process.name()})"
        for process in psutil.Process().children(recursive=True)
        if process not in before and process.status() != psutil.STATUS_ZOMBIE
    ]
    if left:
        raise DemoFailedError(f"processes that the demo started still run: {', '.join(left)}")


def _run(directory: Path, demo: Demo) -> int:
    started = time.monotonic()
    Runtime.set_default(temporal_runtime())
    log_to_file(directory / _LOG_FILE)
    code = 1
    try:
        code = asyncio.run(_until_interrupted(directory, demo))
    except* (EgressProxiesError, aiohttp.ClientError, TimeoutError, OSError) as errors:
        _explain(errors, directory)
    if code == 0:
        say(f"done in {time.monotonic() - started:.0f} s; nothing is left running")
    return code


async def _until_interrupted(directory: Path, demo: Demo) -> int:
    running = asyncio.ensure_future(demo(directory))

    def interrupt() -> None:
        say("==> interrupted: stopping everything")
        # Once is enough: a second cancellation would cut off the cleaning up of the first.
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, say, "    still stopping")
        running.cancel()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, interrupt)
    try:
        await running
    except asyncio.CancelledError:
        say("stopped; nothing is left running")
        return INTERRUPTED
    return 0


def _explain(errors: BaseExceptionGroup[BaseException], directory: Path) -> None:
    reasons = dict.fromkeys(str(error) or type(error).__name__ for error in leaves(errors))
    for reason in reasons:
        print(f"the demo failed: {reason}", file=sys.stderr)
    logs = sorted(path for path in directory.rglob("*.log") if path.stat().st_size)
    print("everything was stopped; the logs:", *logs, sep="\n  ", file=sys.stderr)
