"""Gauges of the providers' checks, from what the watcher last saw of the ProviderHealth objects."""

import logging
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from cluster.connection import ClusterConnection
from cluster.provider_health import COLLECTION_PATH, LABEL_INSTALLATION
from cluster.watching import Change, ChangeType, CollectionWatch, WatchSettings

logger = logging.getLogger(__name__)

_LABELS = ["provider", "target"]


class ProviderHealthCollector(Collector):
    """One sample per target; those of an object that is removed vanish."""

    def __init__(self) -> None:
        self._statuses: dict[str, Mapping[str, Any]] = {}

    def replace(self, statuses: Mapping[str, Mapping[str, Any]]) -> None:
        """Take in the status of every object, by provider."""
        # A new dictionary: a scrape reads from another thread.
        self._statuses = dict(statuses)

    def collect(self) -> Iterator[Metric]:
        """Yield the gauges."""
        up = GaugeMetricFamily(
            "proxy_operator_provider_target_up",
            "Whether the target passed its provider's latest check (1) or not (0).",
            labels=_LABELS,
        )
        duration = GaugeMetricFamily(
            "proxy_operator_provider_check_duration_seconds", "Duration of the target's latest check.", labels=_LABELS
        )
        checked = GaugeMetricFamily(
            "proxy_operator_provider_check_timestamp_seconds", "Unix time of the target's latest check.", labels=_LABELS
        )
        for provider, status in sorted(self._statuses.items()):
            checked_at = datetime.fromisoformat(status["lastCheckTime"]).timestamp()
            for target in status.get("targets") or ():
                labels = [provider, target["name"]]
                up.add_metric(labels, float(target["ready"]))
                duration.add_metric(labels, target.get("latencyMillis", 0) / 1000)
                checked.add_metric(labels, checked_at)
        yield from (up, duration, checked)


class ProviderHealthWatch:
    """Keeps a collector up to date.

    Args:
        connection: The API server.
        installation: Only objects of this one.
        settings: Pace.
        collector: What is kept up to date.
    """

    def __init__(
        self,
        connection: ClusterConnection,
        installation: str,
        settings: WatchSettings,
        collector: ProviderHealthCollector,
    ) -> None:
        self._watch = CollectionWatch(connection, COLLECTION_PATH, settings, f"{LABEL_INSTALLATION}={installation}")
        self._collector = collector
        self._seen: dict[str, Mapping[str, Any]] = {}
        self._listing: dict[str, Mapping[str, Any]] | None = None

    async def run(self) -> None:
        """Watch for ever."""
        told = ""
        async for change in self._watch.changes():
            if change.type is ChangeType.BROKEN:
                if change.error != told:
                    logger.warning("ProviderHealth objects cannot be watched now: %s", change.error)
                told = change.error
                continue
            self._take(change)

    def _take(self, change: Change) -> None:
        if change.type is ChangeType.LISTING:
            self._listing = {}
            return
        if change.type is ChangeType.LISTED:
            self._seen, self._listing = self._listing or {}, None
        elif change.body is not None:
            into = self._seen if self._listing is None else self._listing
            name, status = change.body["metadata"]["name"], change.body.get("status") or {}
            if change.type is ChangeType.DELETED or "lastCheckTime" not in status:
                into.pop(name, None)
            else:
                into[name] = status
        if self._listing is None:
            self._collector.replace(self._seen)
