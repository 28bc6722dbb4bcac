"""Every two minutes: one list per provider, compared with what the Proxies say; what differs is poked."""

import asyncio
from datetime import timedelta

from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import ActivityError

with workflow.unsafe.imports_passed_through():
    from model import messages, names

_TRIES = RetryPolicy(initial_interval=timedelta(seconds=1), maximum_attempts=3)


@workflow.defn(name="DriftCheck")
class DriftCheck:
    """One sweep over all providers. A provider that cannot be listed proves nothing and stops no other."""

    @workflow.run
    async def run(self) -> dict[str, str]:
        """Return a line per provider, for the Temporal UI."""
        providers: list[messages.ProviderQueue] = await workflow.execute_activity(
            "list_providers",
            task_queue=names.QUEUE_CONTROL,
            result_type=list[messages.ProviderQueue],
            start_to_close_timeout=timedelta(seconds=20),
            retry_policy=_TRIES,
        )
        lines = await asyncio.gather(*(self._check(provider) for provider in providers))
        return dict(zip([provider.name for provider in providers], lines, strict=True))

    @staticmethod
    async def _check(provider: messages.ProviderQueue) -> str:
        try:
            report: messages.DriftReport = await workflow.execute_activity(
                "find_drift",
                messages.DriftQuery(provider=provider.name),
                task_queue=provider.task_queue,
                result_type=messages.DriftReport,
                schedule_to_start_timeout=timedelta(seconds=60),
                start_to_close_timeout=timedelta(seconds=60),
                retry_policy=_TRIES,
                summary=provider.name,
            )
            if report.pokes:
                await workflow.execute_activity(
                    "poke_proxies",
                    report.pokes,
                    task_queue=names.QUEUE_CONTROL,
                    start_to_close_timeout=timedelta(seconds=60),
                    retry_policy=_TRIES,
                    summary=provider.name,
                )
        except ActivityError as error:
            return f"not checked: {error.cause or error}"
        return f"{report.proxies} proxies, {report.instances} instances, {len(report.pokes)} to look at"
