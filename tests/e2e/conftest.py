"""Fixtures of the end-to-end tests."""

from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from tests.e2e.system import System
from tests.probing.certificates import Authority
from tests.probing.servers import Origin, response
from tests.support.kubectl import Kubectl
from tests.support.node import RealNode


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Every test of this folder runs a whole system."""
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.heavy)


@pytest.fixture(scope="session")
def e2e_authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("e2e-authority"))


@pytest.fixture
def site(e2e_authority: Authority, monkeypatch: pytest.MonkeyPatch) -> Iterator[Origin]:
    """An HTTPS site with a page, that workers and their processes trust."""
    monkeypatch.setenv("SSL_CERT_FILE", str(e2e_authority.path))
    server = Origin(response("200 OK", b"<h1>a page</h1>"), tls=e2e_authority.server("127.0.0.1", "localhost"))
    yield server
    server.close()


@pytest.fixture
async def system(
    kubectl: Kubectl, temporal_address: str, temporal_namespace: str, tmp_path: Path, site: Origin
) -> AsyncIterator[System]:
    """An installation whose parts the test starts."""
    system = System(kubectl, temporal_address, temporal_namespace, tmp_path)
    yield system
    await system.close()


@pytest.fixture
def check(site: Origin) -> dict[str, object]:
    """A health check against the site, quick enough for a test."""
    return {"probeURL": site.url, "intervalSeconds": 1, "timeoutSeconds": 2}


@pytest.fixture
def node_site(node: RealNode, e2e_authority: Authority, monkeypatch: pytest.MonkeyPatch) -> Iterator[Origin]:
    """An HTTPS site with a page, that Pods reach and workers trust."""
    monkeypatch.setenv("SSL_CERT_FILE", str(e2e_authority.path))
    tls = e2e_authority.server(node.address)
    server = Origin(response("200 OK", b"<h1>a page</h1>"), host=node.address, tls=tls)
    yield server
    server.close()


@pytest.fixture
async def system_on_node(
    node: RealNode, temporal_address: str, temporal_namespace: str, tmp_path: Path, node_site: Origin
) -> AsyncIterator[Callable[[Kubectl], System]]:
    """Start an installation whose provider ``pods`` makes Pods on the node beside their Proxies, once per test."""
    systems: list[System] = []

    def start(kubectl: Kubectl) -> System:
        system = System(kubectl, temporal_address, temporal_namespace, tmp_path)
        systems.append(system)
        block = {"kubeconfig": str(node.kubeconfig), "image": node.squid_image}
        system.write_providers({"name": "pods", "type": "kubernetes", "kubernetes": block})
        system.start_all()
        return system

    yield start
    for system in systems:
        # While the worker still runs, which alone lets go of the finalizers.
        await system.kubectl.arun("delete", "px", "--all", "--timeout=30s")
        await system.close()
