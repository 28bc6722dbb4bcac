"""kill -9 of every process at every boundary of create, replace and delete."""

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest

from app.dev import binaries
from app.dev.kubernetes import ControlPlane
from app.dev.kubernetes_crds import apply_crds
from app.dev.temporal import TemporalServer
from tests.e2e.gates import Gates
from tests.e2e.kill_cells import Operation, table
from tests.e2e.kill_matrix import KillMatrix
from tests.e2e.system import System
from tests.e2e.victims import ApiServer, OwnProcess, Temporal, Victim, Workflows
from tests.probing.certificates import Authority
from tests.probing.servers import Origin
from tests.support.kubectl import Kubectl

VICTIMS = ("worker", "watcher", "API server", "Temporal", "workflows")


@dataclass(frozen=True, kw_only=True)
class Servers:
    """What a system may run on: the session's servers, or some that the test may kill."""

    kubectl: Kubectl
    temporal_address: str
    temporal_namespace: str
    own_temporal: Callable[..., Awaitable[TemporalServer]]
    own_control_plane: Callable[..., Awaitable[ControlPlane]]


@pytest.fixture
def servers(
    kubectl: Kubectl,
    temporal_address: str,
    temporal_namespace: str,
    own_temporal: Callable[..., Awaitable[TemporalServer]],
    own_control_plane: Callable[..., Awaitable[ControlPlane]],
) -> Servers:
    return Servers(
        kubectl=kubectl,
        temporal_address=temporal_address,
        temporal_namespace=temporal_namespace,
        own_temporal=own_temporal,
        own_control_plane=own_control_plane,
    )


@contextlib.asynccontextmanager
async def system_with(
    name: str, servers: Servers, directory: Path, gates: Gates
) -> AsyncIterator[tuple[System, Victim]]:
    """Start everything, each part that is to die where it can be killed alone."""
    kubectl, address, namespace = servers.kubectl, servers.temporal_address, servers.temporal_namespace
    victim: Victim | None = None
    async with contextlib.AsyncExitStack() as cleanup:
        if name == "API server":
            control_plane = await servers.own_control_plane()
            await apply_crds(control_plane.kubeconfig, binaries.kubectl())
            kubectl = Kubectl(control_plane.kubeconfig)
            victim = api_server = ApiServer(control_plane)
            cleanup.push_async_callback(api_server.stop)
        if name == "Temporal":
            server = await servers.own_temporal(synchronous="OFF")
            address, namespace = server.address, "default"
            victim = Temporal(server)
        system = System(kubectl, address, namespace, directory)
        # A poke that is lost with a process is made up for soon.
        system.relist_interval = timedelta(seconds=5)
        cleanup.push_async_callback(system.close)
        worker = OwnProcess(lambda: system.start_worker_process(gates=gates.directory))
        watcher = OwnProcess(system.start_watcher_process)
        system.start_api()
        own: dict[str, Victim] = {"worker": worker, "watcher": watcher, "workflows": Workflows(system)}
        yield system, victim or own[name]


@pytest.mark.fault
@pytest.mark.timeout(900)
@pytest.mark.parametrize("operation", Operation)
@pytest.mark.parametrize("victim", VICTIMS)
async def test_whatever_dies_at_whatever_boundary_one_instance_or_none_is_left(
    servers: Servers,
    site: Origin,
    e2e_authority: Authority,
    tmp_path: Path,
    victim: str,
    operation: Operation,
    request: pytest.FixtureRequest,
) -> None:
    gates = Gates(tmp_path / "gates")
    async with system_with(victim, servers, tmp_path, gates) as (system, killed):
        matrix = KillMatrix(system, site, gates, e2e_authority.path)
        try:
            problems = await matrix.run(operation, killed)
        finally:
            title = f"{operation}, {victim} killed"
            request.node.user_properties.append(("matrix", table(title, matrix.cells, matrix.seconds)))
            await matrix.close()
    assert problems == []
