"""Fixtures that give tests real servers."""

import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.duration_pb2 import Duration
from temporalio.api.workflowservice.v1 import RegisterNamespaceRequest
from temporalio.client import Client

from app.dev import binaries
from app.dev.kubernetes import ControlPlane
from app.dev.temporal import TemporalServer
from tests.support.kubectl import Kubectl
from tests.support.node import RealNode, make_restricted_namespace, node_of
from tests.support.server_process import binaries_that_are_there
from tests.support.shared_servers import Session, SharedServers

_SESSION = pytest.StashKey[Session]()
_SERVERS = pytest.StashKey[SharedServers]()
_WORKER_INPUT = "egress_proxies_session"

TemporalFactory = Callable[..., Awaitable[TemporalServer]]
ControlPlaneFactory = Callable[..., Awaitable[ControlPlane]]


def pytest_configure(config: pytest.Config) -> None:
    worker_input: dict[str, Any] | None = getattr(config, "workerinput", None)
    if worker_input is None:
        session = config.stash[_SESSION] = Session()
        config.stash[_SERVERS] = SharedServers(session.directory)
    else:
        config.stash[_SERVERS] = SharedServers(Path(worker_input[_WORKER_INPUT]))


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """pytest-xdist is about to start a worker."""
    node.workerinput[_WORKER_INPUT] = str(node.config.stash[_SESSION].directory)


def pytest_unconfigure(config: pytest.Config) -> None:
    session = config.stash.get(_SESSION, None)
    if session is not None:
        session.close()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the matrices that tests left: which fault at which step, and what came of it."""
    reports = [report for reports in terminalreporter.stats.values() for report in reports]
    matrices = [text for report in reports for name, text in getattr(report, "user_properties", []) if name == "matrix"]
    if matrices:
        terminalreporter.section("matrices")
        terminalreporter.write_line("\n".join(dict.fromkeys(matrices)))


@pytest.fixture(scope="session")
def kubeconfig(pytestconfig: pytest.Config) -> Path:
    """Kubeconfig of the session's control plane, with our CRDs applied; shared, so leave others' objects alone."""
    return Path(pytestconfig.stash[_SERVERS].facts("kubernetes")["kubeconfig"])


@pytest.fixture
def kube_namespace(kubeconfig: Path) -> Iterator[str]:
    """A fresh Kubernetes namespace, deleted afterwards without waiting for it."""
    name = f"test-{uuid.uuid4().hex[:12]}"
    kubectl = Kubectl(kubeconfig)
    kubectl("create", "namespace", name)
    yield name
    kubectl("delete", "namespace", name, "--wait=false")


@pytest.fixture
def kubectl(kubeconfig: Path, kube_namespace: str) -> Kubectl:
    """kubectl in the fresh namespace."""
    return Kubectl(kubeconfig, kube_namespace)


@pytest.fixture(scope="session")
def node(pytestconfig: pytest.Config) -> RealNode:
    """A cluster of its own with a real node, shared like the control plane.

    Where the machine cannot host one the test is skipped with the reason, and with CI set it fails.
    """
    return node_of(pytestconfig.stash[_SERVERS].facts("node"))


@pytest.fixture
def node_kubectl(node: RealNode) -> Iterator[Kubectl]:
    """kubectl in a fresh namespace of the node's cluster that enforces the level ``restricted``."""
    kubectl = make_restricted_namespace(node.kubeconfig)
    yield kubectl
    kubectl("delete", "namespace", kubectl.namespace, "--wait=false")


@pytest.fixture(scope="session")
def temporal_address(pytestconfig: pytest.Config) -> str:
    """``host:port`` of the session's Temporal server; shared, so work in ``temporal_namespace``."""
    return pytestconfig.stash[_SERVERS].facts("temporal")["address"]


@pytest.fixture
async def temporal_namespace(temporal_address: str) -> str:
    """A fresh Temporal namespace, ready to use."""
    name = f"test-{uuid.uuid4().hex[:12]}"
    client = await Client.connect(temporal_address)
    retention = Duration()
    retention.FromTimedelta(timedelta(days=1))
    request = RegisterNamespaceRequest(namespace=name, workflow_execution_retention_period=retention)
    await client.workflow_service.register_namespace(request, timeout=timedelta(seconds=30))
    return name


@pytest.fixture
async def temporal_client(temporal_address: str, temporal_namespace: str) -> Client:
    """A client of the fresh Temporal namespace."""
    return await Client.connect(temporal_address, namespace=temporal_namespace)


@pytest.fixture
async def own_temporal(tmp_path: Path) -> AsyncIterator[TemporalFactory]:
    """Start Temporal servers that the test may kill; arguments as for ``TemporalServer``."""
    servers: list[TemporalServer] = []

    async def start(**arguments: Any) -> TemporalServer:
        server = TemporalServer(tmp_path / f"temporal-{len(servers)}", binaries.temporal(), **arguments)
        servers.append(server)
        await server.start()
        return server

    yield start
    for server in servers:
        await server.stop()


@pytest.fixture
async def own_control_plane(tmp_path: Path) -> AsyncIterator[ControlPlaneFactory]:
    """Start control planes that the test may kill, without CRDs and, unless asked for, controller manager."""
    control_planes: list[ControlPlane] = []

    async def start(*, controller_manager: bool = False) -> ControlPlane:
        programs = binaries_that_are_there()
        if not controller_manager:
            programs = binaries.ControlPlaneBinaries(etcd=programs.etcd, kube_apiserver=programs.kube_apiserver)
        control_plane = ControlPlane(tmp_path / f"kubernetes-{len(control_planes)}", programs, fsync=False)
        control_planes.append(control_plane)
        await control_plane.start()
        return control_plane

    yield start
    for control_plane in control_planes:
        await control_plane.stop()
