"""The demo: ``python -m app.dev.demo`` shows the main job on real parts and leaves nothing running."""

import argparse
import asyncio
import contextlib
import os
import shutil
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import psutil

from api.settings import ApiSettings
from app.dev import binaries
from app.dev.demo_parts import somebody_elses_proxy
from app.dev.demo_run import check_nothing_is_left, only_trusting, run_alone
from app.dev.demo_story import Scene, providers_of, tell
from app.dev.origin import https_origin
from app.dev.ports import LOOPBACK, PortBook
from app.dev.processes import guard
from app.dev.report import progress, say, step
from app.dev.settings import DevSettings
from app.dev.stack import running_stack
from providers.local.provider import stop_all_processes

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
    check_nothing_is_left(before)


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
        running.enter_context(only_trusting(origin.authority))
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


async def _remove_leftovers(directory: Path) -> None:
    """Start from nothing: servers of a killed run have been ended by its guard, proxies outlive their worker."""
    for box in sorted((directory / "proxies").glob("*")):
        stopped = await stop_all_processes(box)
        if stopped:
            say(f"==> stopped {stopped} proxies ({box.name}) that an earlier run of the demo left running")
    for name in _STATE:
        await asyncio.to_thread(shutil.rmtree, directory / name, ignore_errors=True)


def main() -> int:
    """Run the demo and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m app.dev.demo", description=__doc__)
    parser.add_argument("--state-dir", type=Path, default=Path(".dev/demo"), help="default: %(default)s")
    directory: Path = parser.parse_args().state_dir
    code = run_alone(directory, run_demo)
    if code == 0:
        program = os.path.relpath(Path(sys.executable).with_name("egress-proxies"))
        say(f"to look around in what it did: {program} dev --state-dir {directory}")
    return code


if __name__ == "__main__":
    sys.exit(main())
