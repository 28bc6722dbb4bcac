"""Garbage collection: deletes instances with our marks whose Proxy is gone, and ends what else outlived its Proxy."""

import asyncio
from collections.abc import Mapping
from datetime import timedelta

from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import ActivityError, ApplicationError

with workflow.unsafe.imports_passed_through():
    from model import messages, names
    from model.collection import Spared, candidates_each, queued_anew, within_cap
    from model.collection_messages import (
        ALREADY_GONE,
        DELETED,
        LIST_FAILED,
        OWNED,
        WOULD_DELETE,
        CollectOrphan,
        Findings,
        Orphan,
        OrphanQuery,
        ProviderSweep,
        Reconciliation,
        SweepReport,
        SweepSettings,
    )
    from model.errors import cut
    from workflows import sweep_failures

_TRIES = RetryPolicy(initial_interval=timedelta(seconds=1), maximum_attempts=3)
_HEARTBEAT = timedelta(seconds=10)
_LONGEST_WAIT_FOR_A_WORKER = timedelta(seconds=60)
_SHARE_OF_BEGINNING = 0.35
_SHARE_OF_FINDING = 0.75
_SHARE_OF_CONFIRMING = 0.25
_SHARE_OF_DELETING = 0.5
"""Of the interval. Together they stay below the run's execution timeout of 1.9 intervals."""


@workflow.defn(name="OrphanGC")
class OrphanGC:
    """One sweep over all providers. One that cannot be listed proves nothing and stops no other."""

    @workflow.init
    def __init__(self, settings: SweepSettings) -> None:
        self._settings = settings
        self._interval = timedelta(seconds=settings.interval_seconds)
        self._at = workflow.now().timestamp()

    @workflow.run
    async def run(self, settings: SweepSettings) -> SweepReport:
        """Sweep, and return what was found; the next sweep reads it.

        Args:
            settings: From the schedule.

        Raises:
            ApplicationError: Of type ``ListFailed`` when there are providers and none could be swept.
        """
        previous = _last_report()
        providers = await self._providers()
        queues = {provider.name: provider.task_queue for provider in providers}
        swept, reconciliation = await asyncio.gather(self._sweep(queues, previous), self._reconcile())
        if swept and all(sweep.error for sweep in swept.values()):
            errors = "; ".join(f"{name}: {sweep.error}" for name, sweep in swept.items())
            raise ApplicationError(cut(errors), type=LIST_FAILED, non_retryable=True)
        return SweepReport(
            at=self._at,
            deleted=sum(outcome == DELETED for sweep in swept.values() for outcome in sweep.outcomes.values()),
            dry_run=settings.dry_run,
            providers=swept,
            reconciliation=reconciliation,
        )

    async def _providers(self) -> list[messages.ProviderQueue]:
        providers: list[messages.ProviderQueue] = await workflow.execute_activity(
            "list_providers",
            task_queue=names.QUEUE_CONTROL,
            result_type=list[messages.ProviderQueue],
            start_to_close_timeout=timedelta(seconds=20),
            schedule_to_close_timeout=self._interval * _SHARE_OF_BEGINNING,
            retry_policy=_TRIES,
        )
        return providers

    async def _sweep(self, queues: Mapping[str, str], previous: SweepReport | None) -> dict[str, ProviderSweep]:
        most_candidates = candidates_each(len(queues))
        answers = await asyncio.gather(
            *(self._find(name, queue, previous, most_candidates) for name, queue in queues.items())
        )
        found = dict(zip(queues, answers, strict=True))
        orphans = {name: answer.doomed for name, answer in found.items() if isinstance(answer, Findings)}
        doomed = within_cap(orphans, self._settings.max_deletes, int(self._at / self._settings.interval_seconds))
        owned = await self._owned([orphan for _, orphan in doomed])
        outcomes = await asyncio.gather(*(self._collect(name, queues[name], orphan, owned) for name, orphan in doomed))
        told: dict[str, list[tuple[Orphan, str]]] = {name: [] for name in queues}
        for (name, orphan), outcome in zip(doomed, outcomes, strict=True):
            told[name].append((orphan, outcome))
        return {name: self._sweep_of(name, answer, told[name]) for name, answer in found.items()}

    async def _owned(self, doomed: list[Orphan]) -> list[str] | str:
        """Return which of the missing owners exist after all by the control worker's API server, or why it cannot tell.

        A worker of a provider may stand elsewhere and ask another API server: to it, everything here is an orphan.
        """
        missing = [orphan.uid for orphan in doomed if not orphan.is_second]
        if not missing:
            return []
        try:
            existing: list[str] = await workflow.execute_activity(
                "existing_uids",
                missing,
                task_queue=names.QUEUE_CONTROL,
                result_type=list[str],
                start_to_close_timeout=timedelta(seconds=60),
                schedule_to_close_timeout=self._interval * _SHARE_OF_CONFIRMING,
                heartbeat_timeout=_HEARTBEAT,
                retry_policy=_TRIES,
            )
        except ActivityError as error:
            return f"not confirmed: {sweep_failures.line(error, names.QUEUE_CONTROL)}"
        return existing

    async def _find(
        self, provider: str, task_queue: str, previous: SweepReport | None, most_candidates: int
    ) -> Findings | str:
        """Return what the provider has, or why that cannot be told."""
        before = previous.providers.get(provider) if previous is not None else None
        complete = previous is not None and before is not None and not before.error
        query = OrphanQuery(
            provider=provider,
            settings=self._settings,
            at=self._at,
            previous_at=previous.at if previous is not None and complete else 0.0,
            seen_before=before.candidates if before is not None and complete else {},
            most_candidates=most_candidates,
        )
        try:
            findings: Findings = await workflow.execute_activity(
                "find_orphans",
                query,
                task_queue=task_queue,
                result_type=Findings,
                schedule_to_start_timeout=min(_LONGEST_WAIT_FOR_A_WORKER, self._interval / 2),
                schedule_to_close_timeout=self._interval * _SHARE_OF_FINDING,
                heartbeat_timeout=_HEARTBEAT,
                retry_policy=_TRIES,
                summary=provider,
            )
        except ActivityError as error:
            return sweep_failures.line(error, task_queue)
        return findings

    async def _collect(self, provider: str, task_queue: str, orphan: Orphan, owned: list[str] | str) -> str:
        """Delete one orphan, and return what became of it."""
        if isinstance(owned, str):
            return owned
        if orphan.uid in owned:
            return OWNED
        if self._settings.dry_run:
            return WOULD_DELETE
        collect = CollectOrphan(provider=provider, orphan=orphan, settings=self._settings, at=self._at)
        try:
            outcome: str = await workflow.execute_activity(
                "collect_orphan",
                collect,
                task_queue=task_queue,
                result_type=str,
                schedule_to_start_timeout=min(_LONGEST_WAIT_FOR_A_WORKER, self._interval / 2),
                schedule_to_close_timeout=self._interval * _SHARE_OF_DELETING,
                heartbeat_timeout=_HEARTBEAT,
                retry_policy=_TRIES,
                summary=cut(f"{provider}: {orphan.provider_id} {orphan.incarnation}".strip(), 200),
            )
        except ActivityError as error:
            return sweep_failures.line(error, task_queue)
        return outcome

    async def _reconcile(self) -> Reconciliation:
        try:
            reconciliation: Reconciliation = await workflow.execute_activity(
                "reconcile_strays",
                task_queue=names.QUEUE_CONTROL,
                result_type=Reconciliation,
                schedule_to_close_timeout=self._interval * _SHARE_OF_FINDING,
                heartbeat_timeout=_HEARTBEAT,
                retry_policy=_TRIES,
            )
        except ActivityError as error:
            return Reconciliation(errors=[sweep_failures.line(error, names.QUEUE_CONTROL)])
        return reconciliation

    def _sweep_of(self, provider: str, answer: Findings | str, outcomes: list[tuple[Orphan, str]]) -> ProviderSweep:
        if isinstance(answer, str):
            return ProviderSweep(error=answer)
        spared = dict(answer.spared)
        left = len(answer.doomed) - len(outcomes)
        if left:
            spared[Spared.OVER_THE_CAP] = spared.get(Spared.OVER_THE_CAP, 0) + left
        kept = [orphan for orphan, outcome in outcomes if outcome not in (DELETED, ALREADY_GONE, WOULD_DELETE)]
        return ProviderSweep(
            instances=answer.instances,
            spared=spared,
            candidates=queued_anew(answer.candidates, provider, kept, self._at),
            outcomes={f"{orphan.provider_id} {orphan.incarnation}": outcome for orphan, outcome in outcomes},
        )


def _last_report() -> SweepReport | None:
    """Return the result of the last sweep that ended well, or None when nothing can be told from it.

    One that another version wrote confirms nothing. Not to read it would fail this sweep, and with it every later one.
    """
    try:
        return workflow.get_last_completion_result(SweepReport)
    except Exception as error:
        workflow.logger.warning("the last sweep's result is of another version: %s", type(error).__name__)
        return None
