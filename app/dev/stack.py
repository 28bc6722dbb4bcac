"""The whole system on one machine: API server, Temporal, worker, watcher and API, started and stopped together."""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from app.dev import binaries
from app.dev.kubernetes import ControlPlane
from app.dev.kubernetes_crds import apply_crds
from app.dev.local_providers import state_directories, write_providers
from app.dev.ports import PortBook
from app.dev.report import progress, say, step
from app.dev.settings import DevSettings
from app.dev.squid import ensure_squid
from app.dev.state_lock import alone_in
from app.dev.temporal import TemporalServer
from app.lease_api import run_lease_api
from app.settings import ClusterSettings, LeaseApiSettings, WatcherSettings, WorkerSettings
from app.watcher import run_watcher
from app.worker import run_worker
from providers.local.provider import stop_all_processes


@dataclass(frozen=True, kw_only=True)
class RunningStack:
    """Where the running stack is met."""

    kubeconfig: Path
    kubectl: Path
    temporal_address: str
    temporal_ui: str | None
    api_url: str
    providers_config: Path


@contextlib.asynccontextmanager
async def running_stack(settings: DevSettings) -> AsyncIterator[RunningStack]:
    """Start everything, and stop everything at the end, the proxies too.

    Raises:
        ConfigurationError: A program is missing and cannot be built, or a setting cannot be used.
        ProcessFailedError: A server did not become ready.
    """
    directory = settings.state_directory
    async with contextlib.AsyncExitStack() as cleanup:
        cleanup.enter_context(alone_in(directory, "stack"))
        await ensure_squid(progress)
        kubectl = binaries.kubectl()
        temporal, kubeconfig = await asyncio.gather(
            _start_temporal(directory, cleanup), _start_kubernetes(settings, cleanup)
        )
        with step("applying the CRDs"):
            await apply_crds(kubeconfig, kubectl)
        providers_config = settings.providers_config
        if providers_config is None:
            providers_config = await asyncio.to_thread(write_providers, directory)
        await cleanup.enter_async_context(_proxies_stopped_at_the_end(providers_config))
        cluster = ClusterSettings(kubeconfig=kubeconfig, temporal_address=temporal.address)
        with step("starting worker, watcher and lease API"):
            await cleanup.enter_async_context(_parts(settings, cluster, providers_config))
            api_url = f"http://{settings.api.discovery_addr}"
        yield RunningStack(
            kubeconfig=kubeconfig,
            kubectl=kubectl,
            temporal_address=temporal.address,
            temporal_ui=temporal.ui_url,
            api_url=api_url,
            providers_config=providers_config,
        )
        say("==> stopping: watcher, API, worker, proxies, servers")


async def _start_temporal(directory: Path, cleanup: contextlib.AsyncExitStack) -> TemporalServer:
    server = TemporalServer(
        directory / "temporal", binaries.temporal(), PortBook(directory / "temporal-ports.json"), ui=True
    )
    with step("starting the Temporal server (SQLite, WAL)"):
        cleanup.push_async_callback(server.stop)
        await server.start()
    return server


async def _start_kubernetes(settings: DevSettings, cleanup: contextlib.AsyncExitStack) -> Path:
    if settings.kubeconfig is not None:
        say(f"==> using the cluster of {settings.kubeconfig}")
        return settings.kubeconfig
    with step("looking for etcd and kube-apiserver; the first time on a machine they are built, about 5 minutes"):
        programs = await binaries.control_plane(
            os.environ, progress, build_controller_manager=settings.controller_manager
        )
    control_plane = ControlPlane(settings.state_directory / "kubernetes", programs)
    with step("starting etcd and the Kubernetes API server"):
        cleanup.push_async_callback(control_plane.stop)
        await control_plane.start()
    return control_plane.kubeconfig


@contextlib.asynccontextmanager
async def _proxies_stopped_at_the_end(providers_config: Path) -> AsyncIterator[None]:
    try:
        yield
    finally:
        for directory in await asyncio.to_thread(state_directories, providers_config):
            stopped = await stop_all_processes(directory)
            if stopped:
                progress(f"stopped {stopped} proxies of {directory.name}")


@contextlib.asynccontextmanager
async def _parts(settings: DevSettings, cluster: ClusterSettings, providers_config: Path) -> AsyncIterator[None]:
    """Run worker, watcher and API in this process; the worker stops last, so that the others end their work."""
    worker = WorkerSettings(
        cluster=cluster,
        providers_config=providers_config,
        drift_check_interval=settings.drift_check_interval,
        collection=settings.collection,
        provider_check=settings.provider_check,
        require_local_task_queue=False,
    )
    watcher = WatcherSettings(cluster=cluster, relist_interval=settings.relist_interval)
    lease_api = LeaseApiSettings(cluster=cluster, api=settings.api)
    async with (
        _running("worker", lambda stop: run_worker(worker, stop)),
        _running("watcher", lambda stop: run_watcher(watcher, stop)),
        _running("lease API", lambda stop: run_lease_api(lease_api, stop)),
    ):
        yield


@contextlib.asynccontextmanager
async def _running(name: str, start: Callable[[asyncio.Event], Awaitable[None]]) -> AsyncIterator[None]:
    """Run one part while the body runs; a part that fails ends the body."""
    stop = asyncio.Event()

    async def part() -> None:
        await start(stop)
        if not stop.is_set():
            raise RuntimeError(f"the {name} has ended")

    async with asyncio.TaskGroup() as group:
        group.create_task(part(), name=name)
        try:
            yield
        finally:
            stop.set()


async def run_dev(settings: DevSettings, stop: asyncio.Event) -> None:
    """Run the stack until ``stop`` is set.

    Raises:
        ConfigurationError: As ``running_stack``.
    """
    async with running_stack(settings) as stack:
        say()
        say("everything runs; Ctrl-C stops it, and the next start goes on with the same state")
        say(f"  export KUBECONFIG={stack.kubeconfig.resolve()}")
        say(f"  export TEMPORAL_ADDRESS={stack.temporal_address}")
        say(f"  lease API    {stack.api_url}")
        say(f"  Temporal UI  {stack.temporal_ui}")
        say(f"  providers    {stack.providers_config}")
        await stop.wait()
