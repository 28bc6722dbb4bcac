"""Group commit: the operations of a process travel together, one batch in flight at a time.

An update costs the broker one workflow task, so that only batching makes leases quick. An update that meets the
broker's change of runs or a worker's death hangs; it is therefore sent again under the same id after a short wait.
"""

import asyncio
import logging
import random
import uuid
from collections import deque
from collections.abc import Awaitable, Callable

from temporalio.client import RPCTimeoutOrCancelledError, WorkflowUpdateFailedError
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError

from leasing.futures import retrieve
from model import lease_broker
from model.errors import UnavailableError
from model.lease_answers import Answer, Word, decode_answers
from model.lease_operations import (
    BATCH_BYTES_LIMIT,
    BATCH_OPERATIONS_LIMIT,
    Operation,
)
from model.lease_wire import MalformedBatchError, encode_operation, join_operations

logger = logging.getLogger(__name__)

FIRST_ATTEMPT = 0.25
"""Seconds until a batch is sent again; measured: an update that meets the change of runs stalls 1.2 s otherwise."""
SHORTEST_ATTEMPT = 0.1
_PATIENCE = 4.0
"""How many times as long as usual an answer may take before the batch is sent again."""
_USUAL_WEIGHT = 0.2
LONGEST_ATTEMPT = 2.0
_ATTEMPT_GROWTH = 1.5
_FIRST_BACKOFF = 0.05
_WATCH_SECONDS = 0.1
_LONGEST_BACKOFF = 1.0

Send = Callable[[str, str], Awaitable[str]]
"""Sends a batch under an update id and returns its answers."""


class PendingOperation:
    """An operation on its way.

    Attributes:
        deadline: Loop time after which nobody waits for the answer: it is ``UnavailableError`` by a tenth of a second
            later.
        answer: Resolves to the answer, or to why there is none.
        sent: Whether the broker may have seen it.
    """

    __slots__ = ("answer", "deadline", "encoded", "sent")

    def __init__(self, operation: Operation, deadline: float) -> None:
        self.encoded = encode_operation(operation)
        self.deadline = deadline
        self.answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self.sent = False


class GroupCommit:
    """Sends operations in batches of at most 1,000 and 256 KiB."""

    def __init__(self, send: Send, first_attempt: float = FIRST_ATTEMPT) -> None:
        self._send = send
        self._first_attempt = first_attempt
        self._usual = first_attempt
        self._queue: deque[PendingOperation] = deque()
        self._in_flight: list[PendingOperation] = []
        self._sender: asyncio.Task[None] | None = None
        self._watch: asyncio.TimerHandle | None = None

    def submit(self, operation: Operation, deadline: float) -> PendingOperation:
        """Queue an operation.

        Args:
            operation: What to ask.
            deadline: Loop time until which it is worth sending.
        """
        pending = PendingOperation(operation, deadline)
        self._queue.append(pending)
        if self._watch is None:
            self._watch = asyncio.get_running_loop().call_later(_WATCH_SECONDS, self._end_overdue)
        if self._sender is None or self._sender.done():
            self._sender = asyncio.create_task(self._send_all(), name="lease-group-commit")
        return pending

    def _end_overdue(self) -> None:
        """Answer those who have waited long enough. One timer for all: one for each would cost more than its share."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        for pending in (*self._in_flight, *self._queue):
            if pending.deadline <= now:
                _fail(pending, UnavailableError("the lease broker did not answer in time"))
        waiting = self._in_flight or self._queue
        self._watch = loop.call_later(_WATCH_SECONDS, self._end_overdue) if waiting else None

    async def drain(self, timeout: float) -> None:
        """Wait until nothing is queued or in flight, at most so many seconds, and stop."""
        if self._sender is None:
            return
        await asyncio.wait([self._sender], timeout=timeout)
        if not self._sender.done():
            self._sender.cancel()
            await asyncio.gather(self._sender, return_exceptions=True)

    async def _send_all(self) -> None:
        while batch := self._take_batch():
            self._in_flight = batch
            try:
                answers = await self._commit(batch)
            except asyncio.CancelledError:
                for pending in (*batch, *self._queue):
                    _fail(pending, UnavailableError("the process is stopping"))
                self._queue.clear()
                raise
            except Exception as error:
                for pending in batch:
                    _fail(pending, error)
            else:
                self._resolve(batch, answers)
            finally:
                self._in_flight = []

    def _take_batch(self) -> list[PendingOperation]:
        now = asyncio.get_running_loop().time()
        batch: list[PendingOperation] = []
        size = 2
        while self._queue and len(batch) < BATCH_OPERATIONS_LIMIT:
            pending = self._queue[0]
            if pending.answer.done():
                self._queue.popleft()
                continue
            if pending.deadline <= now:
                self._queue.popleft()
                _fail(pending, UnavailableError("the lease broker did not answer in time"))
                continue
            size += len(pending.encoded) + 1
            if batch and size > BATCH_BYTES_LIMIT:
                break
            batch.append(self._queue.popleft())
        return batch

    async def _commit(self, batch: list[PendingOperation]) -> list[Answer]:
        loop = asyncio.get_running_loop()
        update_id = uuid.uuid4().hex
        text = join_operations([pending.encoded for pending in batch])
        deadline = max(pending.deadline for pending in batch)
        attempt, backoff = self._patience(), _FIRST_BACKOFF
        while (left := deadline - loop.time()) > 0:
            for pending in batch:
                pending.sent = True
            sent_at = loop.time()
            try:
                answers = await _within(min(attempt, left), self._send(text, update_id))
                self._usual += _USUAL_WEIGHT * (loop.time() - sent_at - self._usual)
                return decode_answers(answers)
            except TimeoutError:
                attempt = min(attempt * _ATTEMPT_GROWTH, LONGEST_ATTEMPT)
                continue
            except WorkflowUpdateFailedError as error:
                _raise_if_malformed(error)
            except RPCTimeoutOrCancelledError:
                # The server ended the call, for instance when it was shut down in the middle of it.
                logger.warning("the server ended an update of the lease broker without an answer")
            except RPCError as error:
                _log_rpc_error(error)
            await asyncio.sleep(min(backoff, max(left, 0)) * random.uniform(0.5, 1.0))  # noqa: S311 - jitter
            backoff = min(backoff * 2, _LONGEST_BACKOFF)
        raise UnavailableError("the lease broker did not answer in time")

    def _patience(self) -> float:
        """Return how long the first attempt may take: where answers come quickly, a late one is asked for sooner."""
        return min(self._first_attempt, max(SHORTEST_ATTEMPT, _PATIENCE * self._usual))

    def _resolve(self, batch: list[PendingOperation], answers: list[Answer]) -> None:
        again = []
        for pending, answer in zip(batch, answers, strict=True):
            if answer is Word.AGAIN:
                again.append(pending)
            elif not pending.answer.done():
                pending.answer.set_result(answer)
        self._queue.extendleft(reversed(again))


async def _within(timeout: float, sending: Awaitable[str]) -> str:
    """Await an attempt for so long; the SDK turns a cancellation into an error of its own, hence a task."""
    task = asyncio.ensure_future(sending)
    try:
        done, _ = await asyncio.wait([task], timeout=timeout)
    finally:
        if not task.done():
            task.cancel()
            task.add_done_callback(retrieve)
    if not done:
        raise TimeoutError
    return task.result()


def _fail(pending: PendingOperation, error: Exception) -> None:
    if not pending.answer.done():
        pending.answer.set_exception(error)
        # Whoever waited may have left by now.
        retrieve(pending.answer)


def _raise_if_malformed(error: WorkflowUpdateFailedError) -> None:
    cause = error.cause
    if isinstance(cause, ApplicationError) and cause.type == lease_broker.MALFORMED_BATCH:
        raise MalformedBatchError(cause.message) from error
    # The run ended between taking the update and answering it: the next run takes it again.
    logger.info("the lease broker's run ended under a batch, sending it again")


def _log_rpc_error(error: RPCError) -> None:
    logger.warning("the lease broker cannot be reached, trying again: %s", error.status.name)
