"""Every minute: asks every provider whether its backend is usable, and publishes the answers."""

import asyncio
from datetime import timedelta

from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import ActivityError

with workflow.unsafe.imports_passed_through():
    from model import messages, names
    from model.provider_check_messages import CheckAnswer, CheckOutcome, CheckProvider, CheckSettings, Published
    from workflows import sweep_failures

_TRIES = RetryPolicy(initial_interval=timedelta(seconds=1), maximum_attempts=3)
_ONCE = RetryPolicy(maximum_attempts=1)
_HEARTBEAT = timedelta(seconds=10)
_LONGEST_WAIT_FOR_A_WORKER = timedelta(seconds=60)
_LONGEST_GRACE = timedelta(seconds=5)
"""Beyond the timeout, for an activity that does not end by itself."""


@workflow.defn(name="ProviderCheck")
class ProviderCheck:
    """One check of every provider, each on its own: one that hangs holds up no other's answer."""

    @workflow.init
    def __init__(self, settings: CheckSettings) -> None:
        self._timeout = timedelta(seconds=settings.timeout_seconds)
        self._interval = timedelta(seconds=settings.interval_seconds)

    @workflow.run
    async def run(self, settings: CheckSettings) -> dict[str, str]:
        """Return a line per provider, for the Temporal UI.

        Args:
            settings: From the schedule.
        """
        providers: list[messages.ProviderQueue] = await workflow.execute_activity(
            "list_providers",
            task_queue=names.QUEUE_CONTROL,
            result_type=list[messages.ProviderQueue],
            start_to_close_timeout=timedelta(seconds=20),
            schedule_to_close_timeout=self._interval,
            retry_policy=_TRIES,
        )
        *lines, removed = await asyncio.gather(
            *(self._check(provider) for provider in providers), self._remove_others()
        )
        report = dict(zip([provider.name for provider in providers], lines, strict=True))
        return report | ({"not configured any more": removed} if removed else {})

    async def _check(self, provider: messages.ProviderQueue) -> str:
        outcome = await self._outcome(provider)
        try:
            published: Published = await workflow.execute_activity(
                "publish_provider_health",
                outcome,
                task_queue=names.QUEUE_CONTROL,
                result_type=Published,
                start_to_close_timeout=timedelta(seconds=30),
                schedule_to_close_timeout=self._interval / 2,
                heartbeat_timeout=_HEARTBEAT,
                retry_policy=_TRIES,
                summary=provider.name,
            )
        except ActivityError as error:
            return f"not published: {sweep_failures.line(error, names.QUEUE_CONTROL)}"
        reason = f" ({outcome.reason}: {outcome.message})" if outcome.reason else ""
        poked = f", {published.poked} proxies look again" if published.poked else ""
        return f"Ready={published.ready}, targets {published.targets_ready}{reason}{poked}"

    async def _outcome(self, provider: messages.ProviderQueue) -> CheckOutcome:
        try:
            answer: CheckAnswer = await workflow.execute_activity(
                "check_provider",
                CheckProvider(provider=provider.name, timeout_seconds=self._timeout.total_seconds()),
                task_queue=provider.task_queue,
                result_type=CheckAnswer,
                schedule_to_start_timeout=min(_LONGEST_WAIT_FOR_A_WORKER, self._interval / 4),
                start_to_close_timeout=self._timeout + min(_LONGEST_GRACE, self._interval / 10),
                heartbeat_timeout=_HEARTBEAT,
                retry_policy=_ONCE,
                summary=provider.name,
            )
        except ActivityError as error:
            reason, message = sweep_failures.word_and_message(error, provider.task_queue)
            return CheckOutcome(
                provider=provider.name, checked_at=workflow.now().timestamp(), reason=reason, message=message
            )
        return CheckOutcome(provider=provider.name, checked_at=workflow.now().timestamp(), answer=answer)

    @staticmethod
    async def _remove_others() -> str:
        try:
            removed: list[str] = await workflow.execute_activity(
                "remove_unconfigured_health",
                task_queue=names.QUEUE_CONTROL,
                result_type=list[str],
                start_to_close_timeout=timedelta(seconds=20),
                heartbeat_timeout=_HEARTBEAT,
                retry_policy=_ONCE,
            )
        except ActivityError as error:
            return f"not looked for: {sweep_failures.line(error, names.QUEUE_CONTROL)}"
        return ", ".join(removed)
