"""What a process is told at start."""

from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

from api.settings import ApiSettings


@dataclass(frozen=True, kw_only=True)
class ClusterSettings:
    """Access to Kubernetes, and who we are there.

    Attributes:
        kubeconfig: None means in-cluster, then ``KUBECONFIG``.
        proxy_namespace: Only Proxies of this namespace; "" means all.
        installation: "" means the uid of the cluster's ``kube-system`` namespace.
        temporal_address: "" means what the standard ``TEMPORAL_*`` variables and profiles say.
        temporal_namespace: Goes with ``temporal_address``.
    """

    kubeconfig: Path | None = None
    proxy_namespace: str = ""
    installation: str = ""
    temporal_address: str = ""
    temporal_namespace: str = "default"


@dataclass(frozen=True, kw_only=True)
class ServingSettings:
    """Addresses of the metrics page and the health endpoints, ``host:port`` or ``:port``; ``0`` means none."""

    metrics_address: str = "0"
    health_address: str = "0"


@dataclass(frozen=True, kw_only=True)
class WorkerSettings:
    """Settings of a worker.

    Attributes:
        providers_config: The providers file.
        task_queues: Serve only these; empty means all, those of the providers file included.
        drift_check_interval: How often instances are compared with the Proxies.
        max_proxies_per_worker: Slots for watched proxies and size of the workflow cache.
        target_check: Whether the prober asks the target directly before it blames a proxy.
        require_local_task_queue: Whether ``local`` providers need a queue of their own.
    """

    cluster: ClusterSettings = field(default_factory=ClusterSettings)
    serving: ServingSettings = field(default_factory=ServingSettings)
    providers_config: Path
    task_queues: tuple[str, ...] = ()
    drift_check_interval: timedelta = timedelta(minutes=2)
    max_proxies_per_worker: int = 2000
    target_check: bool = True
    require_local_task_queue: bool = True


@dataclass(frozen=True, kw_only=True)
class WatcherSettings:
    """Settings of a watcher."""

    cluster: ClusterSettings = field(default_factory=ClusterSettings)
    serving: ServingSettings = field(default_factory=ServingSettings)
    relist_interval: timedelta = timedelta(minutes=10)


@dataclass(frozen=True, kw_only=True)
class LeaseApiSettings:
    """Settings of a lease API process."""

    cluster: ClusterSettings = field(default_factory=ClusterSettings)
    serving: ServingSettings = field(default_factory=ServingSettings)
    api: ApiSettings
