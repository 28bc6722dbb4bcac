"""What every process is built from: the cluster, the installation, Temporal and the lease broker."""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from prometheus_client import CollectorRegistry
from temporalio.client import Client

from app.metrics_registry import TolerantRegistry
from app.settings import ClusterSettings
from app.temporal_client import connect_temporal
from cluster.connection import ClusterConnection
from cluster.installation import check_installation, cluster_installation
from cluster.proxies import ProxyStore
from leasing.broker_workflow import claim_installation
from leasing.client import BrokerClient
from model.errors import ConfigurationError

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Components:
    """The parts that worker, watcher and API share."""

    client: Client
    installation: str
    connection: ClusterConnection | None
    broker: BrokerClient
    metrics: CollectorRegistry

    @property
    def cluster(self) -> ClusterConnection:
        """The API server.

        Raises:
            ConfigurationError: This process was built without one.
        """
        if self.connection is None:
            raise ConfigurationError("this process has no access to a Kubernetes cluster")
        return self.connection

    def store(self, namespace: str) -> ProxyStore:
        """Return the Proxies of the cluster, or of one namespace."""
        return ProxyStore(self.cluster, namespace)


@asynccontextmanager
async def components(settings: ClusterSettings, *, needs_cluster: bool = True) -> AsyncIterator[Components]:
    """Connect, find out which installation this is, and claim the Temporal namespace for it.

    Args:
        settings: Access to Kubernetes.
        needs_cluster: Whether the process works with the cluster; otherwise it is read only for the installation.

    Raises:
        ConfigurationError: Something cannot be used, or another installation has the Temporal namespace.
    """
    connection = None
    try:
        if needs_cluster or not settings.installation:
            connection = await ClusterConnection.connect(settings.kubeconfig)
        installation = await _installation(settings, connection)
        client = await connect_temporal(settings.temporal_address, settings.temporal_namespace)
        await claim_installation(client, installation)
        broker = BrokerClient(client, installation)
        logger.info("installation %s, Temporal namespace %s", installation, client.namespace)
        try:
            yield Components(
                client=client,
                installation=installation,
                connection=connection,
                broker=broker,
                metrics=TolerantRegistry(),
            )
        finally:
            await broker.close()
    finally:
        if connection is not None:
            await connection.close()


async def _installation(settings: ClusterSettings, connection: ClusterConnection | None) -> str:
    if settings.installation:
        return check_installation(settings.installation)
    if connection is None:
        raise ConfigurationError("--installation is required where there is no access to a cluster")
    return await cluster_installation(connection)
