"""The demo on Kubernetes: ``python -m app.dev.demo_kubernetes`` runs docs/demo/kubernetes.sh on a node of its own.

The node is real: containerd and a kubelet on this machine, which must be Linux, with root.
"""

import argparse
import asyncio
import contextlib
import os
import shutil
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import psutil
import yaml

from api.settings import ApiSettings
from app.dev import binaries
from app.dev.demo_parts import DemoFailedError
from app.dev.demo_run import check_nothing_is_left, only_trusting, run_alone
from app.dev.node_machine import make_ready
from app.dev.node_stack import running_node
from app.dev.origin import Origin, https_origin
from app.dev.ports import LOOPBACK, PortBook
from app.dev.processes import guard
from app.dev.report import progress, say, step
from app.dev.settings import DevSettings
from app.dev.stack import RunningStack, running_stack
from model.errors import ConfigurationError

SCRIPT = Path(__file__).resolve().parents[2] / "docs" / "demo" / "kubernetes.sh"
_SCRIPT_SECONDS = 600.0
_STOP_SECONDS = 120.0
# Short, because sockets lie in it: see ``app.dev.node.Node``.
_CLUSTER = "node"
# Not the node's own folder: the node looks there for what a killed run has left on the machine, and removes it.
_STATE = ("temporal", "origin", f"{_CLUSTER}/kubernetes")


async def run_demo(directory: Path) -> None:
    """Prepare the machine, start everything, run the script as a user does, stop everything.

    Args:
        directory: State folder. What an earlier run left in it is removed first.

    Raises:
        EgressProxiesError: Something is missing, did not start, or did not happen.
    """
    if not SCRIPT.is_file():
        raise ConfigurationError(f"{SCRIPT} is missing: run from a checkout of the source")
    # Before the demo's own certificate authority is the only one trusted: a build loads modules from the internet.
    with step("preparing this machine for a node; the first time it takes about 15 minutes"):
        await binaries.control_plane(os.environ, progress, build_controller_manager=True)
        reason = await make_ready()
    if reason is not None:
        raise ConfigurationError(f"this machine cannot host a node: {reason}")
    for name in _STATE:
        await asyncio.to_thread(shutil.rmtree, directory / name, ignore_errors=True)
    before = set(psutil.Process().children(recursive=True))
    try:
        async with _system(directory) as (stack, origin):
            say()
            await _run_script(stack, origin)
            say()
    finally:
        await asyncio.to_thread(guard.close)
    check_nothing_is_left(before)


@contextlib.asynccontextmanager
async def _system(directory: Path) -> AsyncIterator[tuple[RunningStack, Origin]]:
    """Run a cluster with a node, a site that Pods reach, and all of ours but the ``local`` provider."""
    ports = PortBook(directory / "ports.json")
    api_port = (await asyncio.to_thread(ports.choose, "lease-api"))["lease-api"]
    async with contextlib.AsyncExitStack() as running:
        with step("starting etcd, the Kubernetes API server, a scheduler, containerd and a kubelet"):
            cluster = await running.enter_async_context(running_node((directory / _CLUSTER).absolute()))
        origin = await running.enter_async_context(https_origin(directory / "origin", cluster.address))
        running.enter_context(only_trusting(origin.authority))
        settings = DevSettings(
            state_directory=directory,
            kubeconfig=cluster.kubeconfig,
            providers_config=await asyncio.to_thread(
                _write_providers, directory, cluster.kubeconfig, cluster.squid_image
            ),
            api=ApiSettings(discovery_addr=f"{LOOPBACK}:{api_port}"),
        )
        yield await running.enter_async_context(running_stack(settings)), origin


def _write_providers(directory: Path, kubeconfig: Path, image: str) -> Path:
    """Write a providers file; without a namespace each Pod is made beside its Proxy."""
    entry = {
        "name": "kubernetes",
        "type": "kubernetes",
        "kubernetes": {"kubeconfig": str(kubeconfig.absolute()), "image": image},
    }
    path = directory / "providers.yaml"
    path.write_text(yaml.safe_dump({"providers": [entry]}, sort_keys=False))
    return path


async def _run_script(stack: RunningStack, origin: Origin) -> None:
    told = {
        "KUBECONFIG": str(stack.kubeconfig),
        # What kubectl remembers of another cluster on the same port must not mislead it.
        "KUBECACHEDIR": str(stack.kubeconfig.parent / "kubectl-cache"),
        "CURL_CA_BUNDLE": str(origin.authority),
        "API_URL": stack.api_url,
        "PAGE_URL": origin.url,
        "PROBE_URL": origin.probe_url,
    }
    own = {"NAMESPACE", "PROVIDER", "TOKEN", "WAIT"}
    inherited = {name: value for name, value in os.environ.items() if name not in own}
    path = f"{stack.kubectl.parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    say(f"$ {' '.join(f'{name}={value}' for name, value in told.items())} docs/demo/{SCRIPT.name}")
    process = await asyncio.create_subprocess_exec(
        "bash",
        str(SCRIPT),
        env={**inherited, "PATH": path, **told},
        stdin=asyncio.subprocess.DEVNULL,
        # A Ctrl-C in the terminal reaches us alone.
        start_new_session=True,
    )
    # A script that outlived us would find the cluster of the next run in the same place.
    guard.watch(process.pid)
    try:
        async with asyncio.timeout(_SCRIPT_SECONDS):
            code = await process.wait()
    except TimeoutError:
        raise DemoFailedError(f"{SCRIPT.name} did not end within {_SCRIPT_SECONDS:.0f} s") from None
    finally:
        await _end(process)
        guard.forget(process.pid)
    if code != 0:
        raise DemoFailedError(f"{SCRIPT.name} ended with code {code}, see above")


async def _end(process: asyncio.subprocess.Process) -> None:
    """Have the script clean up after itself while the cluster still runs."""
    for number, seconds in ((signal.SIGTERM, _STOP_SECONDS), (signal.SIGKILL, None)):
        if process.returncode is not None:
            return
        # The whole group: bash waits for the kubectl it runs before it heeds a signal.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await process.wait()


def main() -> int:
    """Run the demo and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m app.dev.demo_kubernetes", description=__doc__)
    parser.add_argument("--state-dir", type=Path, default=Path(".dev/demo-kubernetes"), help="default: %(default)s")
    directory: Path = parser.parse_args().state_dir
    return run_alone(directory, run_demo)


if __name__ == "__main__":
    sys.exit(main())
