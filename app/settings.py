"""What a process is told at start."""

import json
import re
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

from api.settings import ApiSettings
from model.durations import format_duration
from model.errors import ConfigurationError


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
class CollectionSettings:
    """Settings of garbage collection.

    Attributes:
        interval: Between sweeps; zero means none at all.
        minimum_age: Younger instances are spared.
        max_deletes: Of one sweep.
        dry_run: Only tell what would be deleted.
        collect_unmarked: Take instances without an installation mark for ours.
        allow_namespaced: Sweep although only one namespace's Proxies are seen.
    """

    interval: timedelta = timedelta(minutes=10)
    minimum_age: timedelta = timedelta(minutes=10)
    max_deletes: int = 10
    dry_run: bool = False
    collect_unmarked: bool = False
    allow_namespaced: bool = False


LEAST_CHECK_INTERVAL = timedelta(seconds=10)
_USUAL_CHECK_TIMEOUT = timedelta(seconds=15)


@dataclass(frozen=True, kw_only=True)
class ProviderCheckSettings:
    """Settings of the providers' checks.

    Attributes:
        interval: Between checks; zero means none at all.
        timeout: For the check of one provider; zero means 15 s, or the interval where that is shorter.
    """

    interval: timedelta = timedelta(minutes=1)
    timeout: timedelta = timedelta()

    @property
    def timeout_in_force(self) -> timedelta:
        """The timeout, with the default resolved."""
        return self.timeout or min(_USUAL_CHECK_TIMEOUT, self.interval)

    def check(self) -> None:
        """Make sure that the checks can be run.

        Raises:
            ConfigurationError: The interval is too short, or the timeout longer than the interval.
        """
        if not self.interval:
            return
        if self.interval < LEAST_CHECK_INTERVAL:
            raise ConfigurationError(
                f"--provider-check-interval: {format_duration(self.interval)} is too short; "
                f"give at least {format_duration(LEAST_CHECK_INTERVAL)}, or 0 for no checks"
            )
        if self.timeout > self.interval:
            raise ConfigurationError(
                f"--provider-check-timeout: {format_duration(self.timeout)} is longer than --provider-check-interval "
                f"({format_duration(self.interval)})"
            )


_DEPLOYMENT_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}")
_BUILD_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,127}")


@dataclass(frozen=True, kw_only=True)
class DeploymentSettings:
    """Which worker deployment version this process is; both empty means that it takes part in none."""

    name: str = ""
    build_id: str = ""

    def check(self) -> None:
        """Make sure that both are given, or none.

        Raises:
            ConfigurationError: One is missing, or has characters that Temporal's commands cannot take.
        """
        if not self.name and not self.build_id:
            return
        if not _DEPLOYMENT_NAME.fullmatch(self.name):
            raise ConfigurationError(
                f"--deployment-name: {json.dumps(self.name[:80])} is not 1-63 of letters, digits, '-' and '_' "
                "beginning with a letter or digit; it goes with --build-id"
            )
        if not _BUILD_ID.fullmatch(self.build_id):
            raise ConfigurationError(
                f"--build-id: {json.dumps(self.build_id[:80])} is not 1-128 of letters, digits, '.', '_', '+' and '-' "
                "beginning with a letter or digit; it goes with --deployment-name"
            )


@dataclass(frozen=True, kw_only=True)
class WorkerSettings:
    """Settings of a worker.

    Attributes:
        providers_config: The providers file.
        task_queues: Serve only these; empty means all, those of the providers file included.
        drift_check_interval: How often instances are compared with the Proxies.
        collection: Of instances that nobody owns.
        provider_check: Of the providers' backends.
        max_proxies_per_worker: Slots for watched proxies and size of the workflow cache.
        deployment: Of the queues with workflows.
        target_check: Whether the prober asks the target directly before it blames a proxy.
        require_local_task_queue: Whether ``local`` providers need a queue of their own.
    """

    cluster: ClusterSettings = field(default_factory=ClusterSettings)
    serving: ServingSettings = field(default_factory=ServingSettings)
    providers_config: Path
    task_queues: tuple[str, ...] = ()
    drift_check_interval: timedelta = timedelta(minutes=2)
    collection: CollectionSettings = field(default_factory=CollectionSettings)
    provider_check: ProviderCheckSettings = field(default_factory=ProviderCheckSettings)
    max_proxies_per_worker: int = 2000
    deployment: DeploymentSettings = field(default_factory=DeploymentSettings)
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
