"""From the options of the command line to settings."""

from collections.abc import Mapping
from typing import Any

from api.settings import ApiSettings
from app.dev.settings import DevSettings
from app.settings import (
    ClusterSettings,
    CollectionSettings,
    DeploymentSettings,
    LeaseApiSettings,
    ProviderCheckSettings,
    ServingSettings,
    WatcherSettings,
    WorkerSettings,
)

TOKEN_VARIABLE = b"DISCOVERY_TOKEN"


def worker_settings(options: Mapping[str, Any]) -> WorkerSettings:
    """Return the settings of ``worker``."""
    return WorkerSettings(
        cluster=_cluster(options),
        serving=_serving(options),
        providers_config=options["providers_config"],
        task_queues=tuple(options["task_queues"]),
        drift_check_interval=options["drift_check_interval"],
        collection=_collection(options),
        provider_check=_provider_check(options),
        max_proxies_per_worker=options["max_proxies_per_worker"],
        deployment=DeploymentSettings(name=options["deployment_name"], build_id=options["build_id"]),
        target_check=not options["no_target_check"],
    )


def watcher_settings(options: Mapping[str, Any]) -> WatcherSettings:
    """Return the settings of ``watcher``."""
    return WatcherSettings(
        cluster=_cluster(options), serving=_serving(options), relist_interval=options["relist_interval"]
    )


def api_settings(options: Mapping[str, Any], environment: Mapping[bytes, bytes]) -> LeaseApiSettings:
    """Return the settings of ``api``; the token comes from the environment alone, as bytes."""
    return LeaseApiSettings(
        cluster=_cluster(options),
        serving=_serving(options),
        api=ApiSettings(
            discovery_addr=options["discovery_addr"],
            token=environment.get(TOKEN_VARIABLE, b""),
            max_lease_ttl=options["max_lease_ttl"],
            lease_cooldown=options["lease_cooldown"],
            allow_unauthenticated=options["allow_unauthenticated"],
        ),
    )


def dev_settings(options: Mapping[str, Any], environment: Mapping[bytes, bytes]) -> DevSettings:
    """Return the settings of ``dev``."""
    return DevSettings(
        state_directory=options["state_dir"],
        kubeconfig=options["kubeconfig"],
        providers_config=options["providers_config"],
        controller_manager=options["controller_manager"],
        drift_check_interval=options["drift_check_interval"],
        collection=_collection(options),
        provider_check=_provider_check(options),
        relist_interval=options["relist_interval"],
        api=ApiSettings(
            discovery_addr=options["discovery_addr"],
            token=environment.get(TOKEN_VARIABLE, b""),
            max_lease_ttl=options["max_lease_ttl"],
            lease_cooldown=options["lease_cooldown"],
            allow_unauthenticated=options["allow_unauthenticated"],
        ),
    )


def _cluster(options: Mapping[str, Any]) -> ClusterSettings:
    return ClusterSettings(
        kubeconfig=options["kubeconfig"],
        proxy_namespace=options["proxy_namespace"],
        installation=options["installation"],
    )


def _serving(options: Mapping[str, Any]) -> ServingSettings:
    return ServingSettings(
        metrics_address=options["metrics_bind_address"], health_address=options["health_probe_bind_address"]
    )


def _collection(options: Mapping[str, Any]) -> CollectionSettings:
    return CollectionSettings(
        interval=options["gc_interval"],
        minimum_age=options["gc_min_age"],
        max_deletes=options["gc_max_deletes"],
        dry_run=options["gc_dry_run"],
        collect_unmarked=options["gc_collect_unmarked"],
        allow_namespaced=options.get("gc_allow_namespaced", False),
    )


def _provider_check(options: Mapping[str, Any]) -> ProviderCheckSettings:
    settings = ProviderCheckSettings(
        interval=options["provider_check_interval"], timeout=options["provider_check_timeout"]
    )
    settings.check()
    return settings
