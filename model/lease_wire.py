"""How operations travel to the lease broker.

A batch is one JSON array of operations; each is an array that starts with its one-letter code. An acquire leaves out
what it does not use, and so does the view of a proxy that does not drain.
"""

import json
from collections.abc import Sequence
from typing import Any

from model.lease_keys import HASH_CHARACTERS
from model.lease_operations import (
    BATCH_OPERATIONS_LIMIT,
    RESULTS,
    Acquire,
    GiveBack,
    Gone,
    Latencies,
    Latency,
    Look,
    Operation,
    Order,
    Primed,
    Probe,
    Probes,
    ProxyView,
    Release,
    Renew,
    Report,
    Transition,
)

LEASE_ID_LIMIT = 64
_HEXADECIMAL = frozenset("0123456789abcdef")


class MalformedBatchError(ValueError):
    """A batch that no client of ours would send. Sending it again does not help."""


_OPERATION_CODES: dict[type[Operation], str] = {
    Acquire: "a",
    Renew: "n",
    Look: "k",
    Release: "r",
    GiveBack: "b",
    Report: "p",
    Transition: "t",
    Gone: "g",
    Latencies: "l",
    Probes: "o",
    Primed: "d",
}
_OPERATION_SHAPES: dict[str, tuple[type[Operation], tuple[type, ...]]] = {
    "a": (Acquire, (str, dict, str, int, int)),
    "n": (Renew, (str, int)),
    "k": (Look, (str,)),
    "r": (Release, (str,)),
    "b": (GiveBack, (str,)),
    "p": (Report, (str, str, str, int)),
    "t": (Transition, (str, str, list, list)),
    "g": (Gone, (str, str, list)),
    "l": (Latencies, (list,)),
    "o": (Probes, (list,)),
    "d": (Primed, ()),
}
_WHOLE_ACQUIRE = (*_OPERATION_SHAPES["a"][1], str, str, bool)
_PLAIN_ACQUIRE_FIELDS = len(_OPERATION_SHAPES["a"][1])
_VIEW_SHAPE = (str, int, dict, str, bool, int, int, bool, str)
_DRAINING_VIEW_SHAPE = (*_VIEW_SHAPE, int)
_ROW_SHAPE = (str, str, int)
_ORDER_SHAPE = (int, int)


def encode_operation(operation: Operation) -> str:
    """Return one operation as the JSON that ``join_operations`` takes."""
    fields: Sequence[Any] = operation
    if isinstance(operation, Acquire) and not (operation.body or operation.session):
        fields = operation[:_PLAIN_ACQUIRE_FIELDS]
    if isinstance(operation, Transition) and not operation.view.drain_ends_at:
        fields = (*operation[:-1], operation.view.told)
    return json.dumps([_OPERATION_CODES[type(operation)], *fields], separators=(",", ":"))


def join_operations(encoded: Sequence[str]) -> str:
    """Return the batch of these encoded operations."""
    return f"[{','.join(encoded)}]"


def decode_operations(text: str) -> list[Operation]:
    """Read a batch.

    Raises:
        MalformedBatchError: It is no batch; the message names the place and not the content.
    """
    try:
        rows = json.loads(text)
    except (ValueError, RecursionError):
        raise MalformedBatchError("the batch is not JSON") from None
    if type(rows) is not list or len(rows) > BATCH_OPERATIONS_LIMIT:
        raise MalformedBatchError(f"the batch is not an array of at most {BATCH_OPERATIONS_LIMIT} operations")
    return [_decode_operation(place, row) for place, row in enumerate(rows)]


def _decode_operation(place: int, row: Any) -> Operation:
    shape = _OPERATION_SHAPES.get(row[0]) if type(row) is list and row and type(row[0]) is str else None
    if shape is None:
        raise MalformedBatchError(f"operation {place} has no known code")
    kind, types = shape
    fields = row[1:]
    found = tuple(map(type, fields))
    if found != types and not (kind is Acquire and found == _WHOLE_ACQUIRE):
        raise MalformedBatchError(f"operation {place} ({kind.__name__}) has fields of other types")
    try:
        return _build(kind, fields)
    except ValueError as error:
        raise MalformedBatchError(f"operation {place} ({kind.__name__}): {error}") from None


def _build(kind: type[Operation], fields: list[Any]) -> Operation:
    if kind is Acquire:
        return _acquire(Acquire(*fields))
    if kind is Transition:
        proxy_id, uid, order, view = fields
        return Transition(proxy_id, uid, _order(order), _view(view))
    if kind is Gone:
        proxy_id, uid, order = fields
        return Gone(proxy_id, uid, _order(order))
    if kind is Latencies:
        return Latencies([Latency(*_row(row)) for row in fields[0]])
    if kind is Probes:
        return Probes([_probe(row) for row in fields[0]])
    if kind is Report:
        return _report(Report(*fields))
    if kind is Renew and fields[1] <= 0:
        raise ValueError("ttl_millis must be positive")
    if kind is not Primed:
        _check_lease_id(fields[0])
    return kind(*fields)


def _acquire(acquire: Acquire) -> Acquire:
    _check_lease_id(acquire.lease_id)
    _check_texts(acquire.selector)
    _check_hash("body", acquire.body)
    _check_hash("session", acquire.session)
    if acquire.ttl_millis <= 0 or acquire.retain_millis < 0:
        raise ValueError("ttl_millis must be positive and retain_millis not negative")
    return acquire


def _report(report: Report) -> Report:
    _check_lease_id(report.lease_id)
    if report.result not in RESULTS or report.cooldown_millis < 0:
        raise ValueError(f"result must be one of {', '.join(RESULTS)} and cooldown_millis not negative")
    return report


def _check_hash(name: str, text: str) -> None:
    if text and (len(text) != HASH_CHARACTERS or not _HEXADECIMAL.issuperset(text)):
        raise ValueError(f"{name} must be empty or {HASH_CHARACTERS} hexadecimal digits")


def _check_lease_id(lease_id: str) -> None:
    if not 0 < len(lease_id) <= LEASE_ID_LIMIT:
        raise ValueError(f"lease_id must have 1 to {LEASE_ID_LIMIT} characters")


def _check_texts(texts: dict[str, Any]) -> None:
    if any(type(value) is not str for value in texts.values()):
        raise ValueError("every value must be a string")


def _order(row: Any) -> Order:
    if type(row) is not list or tuple(map(type, row)) != _ORDER_SHAPE:
        raise ValueError("order must be two integers")
    return row[0], row[1]


def _view(row: list[Any]) -> ProxyView:
    if tuple(map(type, row)) not in (_VIEW_SHAPE, _DRAINING_VIEW_SHAPE):
        raise ValueError("view has fields of other types")
    view = ProxyView(*row)
    _check_texts(view.attributes)
    if view.drain_ends_at < 0:
        raise ValueError("drain_ends_at must not be negative")
    return view


def _row(row: Any) -> list[Any]:
    if type(row) is not list or tuple(map(type, row)) != _ROW_SHAPE:
        raise ValueError("a row is a proxy id, a uid and an integer")
    return row


def _probe(row: Any) -> Probe:
    probe = Probe(*_row(row))
    if probe.hold_millis < 0:
        raise ValueError("hold_millis must not be negative")
    return probe
