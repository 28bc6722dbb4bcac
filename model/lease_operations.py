"""What clients ask of the lease broker, and how it travels.

A batch is one JSON array of operations; each is an array that starts with its one-letter code. Every operation may be
sent again: it is idempotent by its lease id, or by the uid and order of a proxy's transition.

All times are milliseconds: ``*_millis`` are lengths, ``expires_millis`` is Unix time.
"""

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

Order = tuple[int, int]
"""Which of two messages about a proxy is newer: start of its workflow's chain in Unix milliseconds, then a counter."""

PRIMING_ORDER: Order = (0, 0)
"""The order of what priming says: anything a proxy's own workflow ever said is newer."""

BATCH_OPERATIONS_LIMIT = 1000
BATCH_BYTES_LIMIT = 256 * 1024
LEASE_ID_LIMIT = 64
TEXT_LIMIT = 255
"""Longest target, selector key and selector value, in bytes of UTF-8."""
SELECTOR_PAIRS_LIMIT = 64

RESULT_OK = "ok"
RESULTS = (RESULT_OK, "rate_limited", "banned")


class MalformedBatchError(ValueError):
    """A batch that no client of ours would send. Sending it again does not help."""


class ProxyView(NamedTuple):
    """What the broker knows of a proxy.

    Attributes:
        phase: ``status.phase``; a ``Deleting`` proxy is neither listed nor considered.
        leasable: Whether it may be handed out, besides being healthy: it has an address and is not being replaced.
        instance: Which instance or endpoint this is. When it changes, the leases on the former one are revoked.
    """

    ip: str
    port: int
    attributes: dict[str, str]
    phase: str
    healthy: bool
    latency_millis: int
    max_leases: int
    leasable: bool
    instance: str


class Acquire(NamedTuple):
    """Grant a lease under an id the client chose; ``retain_millis`` past its end it can still be reported on."""

    lease_id: str
    selector: dict[str, str]
    target: str
    ttl_millis: int
    retain_millis: int


class Release(NamedTuple):
    """End a lease at its holder's wish."""

    lease_id: str


class GiveBack(NamedTuple):
    """End a lease that nobody holds because its grant never reached anyone, even one that is granted later."""

    lease_id: str


class Report(NamedTuple):
    """How the target treated the lease's proxy; "" as target means the lease's own."""

    lease_id: str
    result: str
    target: str
    cooldown_millis: int


class Transition(NamedTuple):
    """The proxy is like this now."""

    proxy_id: str
    uid: str
    order: Order
    view: ProxyView


class Gone(NamedTuple):
    """The Proxy with this uid is no more."""

    proxy_id: str
    uid: str
    order: Order


class Latency(NamedTuple):
    """A proxy's latest latency; ignored for another uid than the known one."""

    proxy_id: str
    uid: str
    latency_millis: int


class Latencies(NamedTuple):
    """Latencies of many proxies at once."""

    rows: list[Latency]


class Primed(NamedTuple):
    """Every Proxy there is has been told: leases may be granted."""


Operation = Acquire | Release | GiveBack | Report | Transition | Gone | Latencies | Primed


_OPERATION_CODES: dict[type[Operation], str] = {
    Acquire: "a",
    Release: "r",
    GiveBack: "b",
    Report: "p",
    Transition: "t",
    Gone: "g",
    Latencies: "l",
    Primed: "d",
}
_OPERATION_SHAPES: dict[str, tuple[type[Operation], tuple[type, ...]]] = {
    "a": (Acquire, (str, dict, str, int, int)),
    "r": (Release, (str,)),
    "b": (GiveBack, (str,)),
    "p": (Report, (str, str, str, int)),
    "t": (Transition, (str, str, list, list)),
    "g": (Gone, (str, str, list)),
    "l": (Latencies, (list,)),
    "d": (Primed, ()),
}
_VIEW_SHAPE = (str, int, dict, str, bool, int, int, bool, str)
_LATENCY_SHAPE = (str, str, int)
_ORDER_SHAPE = (int, int)


def encode_operation(operation: Operation) -> str:
    """Return one operation as the JSON that ``join_operations`` takes."""
    return json.dumps([_OPERATION_CODES[type(operation)], *operation], separators=(",", ":"))


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
    if tuple(map(type, fields)) != types:
        raise MalformedBatchError(f"operation {place} ({kind.__name__}) has fields of other types")
    try:
        return _build(kind, fields)
    except ValueError as error:
        raise MalformedBatchError(f"operation {place} ({kind.__name__}): {error}") from None


def _build(kind: type[Operation], fields: list[Any]) -> Operation:
    if kind is Acquire:
        acquire = Acquire(*fields)
        _check_lease_id(acquire.lease_id)
        _check_texts(acquire.selector)
        if acquire.ttl_millis <= 0 or acquire.retain_millis < 0:
            raise ValueError("ttl_millis must be positive and retain_millis not negative")
        return acquire
    if kind is Transition:
        proxy_id, uid, order, view = fields
        return Transition(proxy_id, uid, _order(order), _view(view))
    if kind is Gone:
        proxy_id, uid, order = fields
        return Gone(proxy_id, uid, _order(order))
    if kind is Latencies:
        return Latencies([_latency(row) for row in fields[0]])
    if kind is Report:
        report = Report(*fields)
        _check_lease_id(report.lease_id)
        if report.result not in RESULTS or report.cooldown_millis < 0:
            raise ValueError(f"result must be one of {', '.join(RESULTS)} and cooldown_millis not negative")
        return report
    if kind is Release or kind is GiveBack:
        _check_lease_id(fields[0])
    return kind(*fields)


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
    if tuple(map(type, row)) != _VIEW_SHAPE:
        raise ValueError("view has fields of other types")
    view = ProxyView(*row)
    _check_texts(view.attributes)
    return view


def _latency(row: Any) -> Latency:
    if type(row) is not list or tuple(map(type, row)) != _LATENCY_SHAPE:
        raise ValueError("a latency is a proxy id, a uid and an integer")
    return Latency(*row)
