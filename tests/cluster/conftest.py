"""Connections to the real API server, and a server that answers as a test says."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from cluster.connection import ClusterConnection
from cluster.proxies import ProxyStore
from tests.cluster.scripted_api import ScriptedApi
from tests.support.kubectl import Kubectl


@pytest.fixture
async def connection(kubeconfig: Path) -> AsyncIterator[ClusterConnection]:
    """A connection to the session's API server."""
    connection = await ClusterConnection.connect(kubeconfig)
    yield connection
    await connection.close()


@pytest.fixture
def store(connection: ClusterConnection, kubectl: Kubectl) -> ProxyStore:
    """The Proxies of the fresh namespace."""
    return ProxyStore(connection, kubectl.namespace)


@pytest.fixture
async def scripted(tmp_path: Path) -> AsyncIterator[ScriptedApi]:
    """A scripted API server."""
    async with ScriptedApi(tmp_path) as api:
        yield api


@pytest.fixture
async def to_scripted(scripted: ScriptedApi) -> AsyncIterator[ClusterConnection]:
    """A connection to the scripted API server."""
    async with AsyncExitStack() as cleanup:
        connection = await ClusterConnection.connect(scripted.kubeconfig)
        cleanup.push_async_callback(connection.close)
        yield connection
