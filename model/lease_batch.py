"""A batch of operations applied to the lease table, within what one workflow task may take and carry."""

from collections.abc import Iterable

from model.lease_answers import AnswerWriter, Word
from model.lease_operations import Operation
from model.leases import LeaseTable

ANSWER_BYTES_LIMIT = 512 * 1024
_LARGEST_ANSWER = 48 * 1024
"""A grant with its view: 4 KiB of attributes may take six times that in JSON."""

WORK_LIMIT = 1_000_000
"""Steps of the table's index a batch may take: about a third of a second, of the 2 s after which the SDK gives a
workflow task up."""


def apply_batch(table: LeaseTable, operations: Iterable[Operation], now: int) -> str:
    """Apply operations in order and return the answers as they travel.

    What would be too much for one batch is answered ``Again`` and not applied; the first operation always is.

    Args:
        table: The table, changed in place.
        operations: At most ``BATCH_OPERATIONS_LIMIT``.
        now: Unix milliseconds.
    """
    table.advance(now)
    table.index.work = 0
    answers = AnswerWriter()
    for operation in operations:
        if table.index.work < WORK_LIMIT and answers.size < ANSWER_BYTES_LIMIT - _LARGEST_ANSWER:
            answers.add(table.apply(operation))
        else:
            answers.add(Word.AGAIN)
    return answers.text()
