"""When scheduled work last went well: a run that hangs or fails again and again shows as a time that stands still."""

import asyncio
import logging
from collections.abc import Iterator
from datetime import timedelta

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from temporalio.client import Client
from temporalio.service import RPCError

from model import names

logger = logging.getLogger(__name__)

_LOOK_SECONDS = 30.0
_DEADLINE = timedelta(seconds=10)
_WORKFLOWS = {
    names.ORPHAN_GC_ID: "OrphanGC",
    names.PROVIDER_CHECK_ID: "ProviderCheck",
    names.DRIFT_CHECK_ID: "DriftCheck",
}


class RunCollector(Collector):
    """The last success of each schedule, as Temporal told a moment ago; a scrape asks nobody."""

    def __init__(self) -> None:
        self.last_success: dict[str, float] = {}

    def collect(self) -> Iterator[Metric]:
        """Yield the gauge; a schedule that never had a success is left out."""
        gauge = GaugeMetricFamily(
            "proxy_operator_schedule_last_success_timestamp_seconds",
            "Unix time at which the last successful run of a schedule ended.",
            labels=["schedule"],
        )
        for schedule, ended_at in sorted(self.last_success.items()):
            gauge.add_metric([schedule], ended_at)
        yield gauge


async def follow_runs(client: Client, collector: RunCollector) -> None:
    """Ask Temporal for ever; what it does not answer stays as it was, which is what an alert on age needs."""
    while True:
        for schedule, workflow in _WORKFLOWS.items():
            try:
                ended_at = await _last_success(client, workflow)
            except RPCError as error:
                logger.warning("the last run of %s is not known: %s", schedule, error)
                continue
            if ended_at is not None:
                collector.last_success = collector.last_success | {schedule: ended_at}
        await asyncio.sleep(_LOOK_SECONDS)


async def _last_success(client: Client, workflow: str) -> float | None:
    # The store answers the latest first.
    query = f"WorkflowType = '{workflow}' AND ExecutionStatus = 'Completed'"
    async for execution in client.list_workflows(query, limit=1, page_size=1, rpc_timeout=_DEADLINE):
        return execution.close_time.timestamp() if execution.close_time is not None else None
    return None
