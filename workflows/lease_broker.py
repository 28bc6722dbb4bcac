"""The one workflow that owns all leases; its rules are ``model.leases``."""

from datetime import timedelta

from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import ActivityError, ApplicationError

with workflow.unsafe.imports_passed_through():
    from model import lease_broker, lease_list, lease_snapshot, names
    from model.lease_batch import apply_batch
    from model.lease_broker import BrokerSettings
    from model.lease_wire import MalformedBatchError, decode_operations
    from model.leases import LeaseTable

_PRIMING_PAUSE = timedelta(seconds=10)


@workflow.defn(name=lease_broker.WORKFLOW_TYPE)
class LeaseBroker:
    """Applies batches of operations to the lease table, for ever.

    Handlers never wait, so that each batch is applied as a whole, in the order of the history. The table travels from
    run to run as a snapshot. A run without one knows no proxies: it grants nothing until an activity has told it of
    every Proxy there is.
    """

    @workflow.init
    def __init__(self, settings: BrokerSettings, snapshot: bytes = b"") -> None:
        self._settings = settings
        self._batches = 0
        self._table = lease_snapshot.load(snapshot) if snapshot else LeaseTable()

    @workflow.run
    async def run(self, settings: BrokerSettings, snapshot: bytes = b"") -> None:
        """Serve until the history is long, then go on as a new run.

        Args:
            settings: Passed on from run to run.
            snapshot: The table of the run before, empty at the first.
        """
        while not self._table.primed and not self._run_is_full():
            await self._prime()
        await workflow.wait_condition(self._run_is_full)
        await workflow.wait_condition(workflow.all_handlers_finished)
        workflow.continue_as_new(args=[self._settings, lease_snapshot.dump(self._table)])

    @workflow.update(name=lease_broker.UPDATE_BATCH)
    def batch(self, operations: str) -> str:
        """Apply a batch in order and return its answers (``model.lease_operations``, ``model.lease_answers``)."""
        self._batches += 1
        try:
            decoded = decode_operations(operations)
        except MalformedBatchError as error:
            raise ApplicationError(str(error), type=lease_broker.MALFORMED_BATCH, non_retryable=True) from None
        return apply_batch(self._table, decoded, _now_millis())

    @workflow.query(name=lease_broker.QUERY_LIST)
    def list_proxies(self, now_millis: int) -> str:
        """Return every proxy with its active leases at the asker's time (``model.lease_list``)."""
        return lease_list.encode_list(self._table, now_millis)

    @workflow.query(name=lease_broker.QUERY_DOUBTED)
    def doubted_proxies(self, now_millis: int) -> str:
        """Return the proxies that wait for a probe (``model.lease_list``)."""
        return lease_list.encode_doubted(self._table)

    @workflow.query(name=lease_broker.QUERY_LEASES_ON)
    def leases_on(self, now_millis: int, proxy_ids: list[str]) -> str:
        """Return how many leases run on these proxies at the asker's time (``model.lease_list``)."""
        return lease_list.encode_leases_on(self._table, now_millis, proxy_ids)

    @workflow.query(name=lease_broker.QUERY_SUMMARY)
    def summary(self, now_millis: int) -> str:
        """Return the numbers for the metrics at the asker's time (``model.lease_list``)."""
        return lease_list.encode_summary(self._table, now_millis)

    def _run_is_full(self) -> bool:
        limit = self._settings.continue_as_new_after
        if limit is not None and self._batches >= limit:
            return True
        return workflow.info().is_continue_as_new_suggested()

    async def _prime(self) -> None:
        priming = workflow.start_activity(
            lease_broker.PRIME_ACTIVITY,
            task_queue=names.QUEUE_CONTROL,
            schedule_to_start_timeout=timedelta(seconds=60),
            start_to_close_timeout=timedelta(seconds=60),
            heartbeat_timeout=timedelta(seconds=10),
            retry_policy=RetryPolicy(initial_interval=timedelta(seconds=1), maximum_interval=timedelta(seconds=10)),
        )
        await workflow.wait_condition(lambda: priming.done() or self._run_is_full())
        if not priming.done():
            return
        try:
            await priming
        except ActivityError as error:
            workflow.logger.warning("priming the lease broker failed, trying again: %s", error.cause)
        if not self._table.primed:
            await self._pause()

    async def _pause(self) -> None:
        try:
            await workflow.wait_condition(lambda: self._table.primed or self._run_is_full(), timeout=_PRIMING_PAUSE)
        except TimeoutError:
            return


def _now_millis() -> int:
    return int(workflow.now().timestamp() * 1000)
