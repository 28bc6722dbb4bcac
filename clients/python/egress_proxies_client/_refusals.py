"""From an answer that is no success to the error it becomes."""

import json
import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from egress_proxies_client.errors import (
    EgressProxiesError,
    IdempotencyKeyReused,
    InvalidRequest,
    LeaseExpired,
    LeaseRevoked,
    NoMatch,
    SessionUnavailable,
    Unauthorized,
    Unavailable,
    UnexpectedAnswer,
    UnknownLease,
)

_PLAIN: dict[str, type[EgressProxiesError]] = {
    "unauthorized": Unauthorized,
    "unknown_lease": UnknownLease,
    "lease_expired": LeaseExpired,
    "lease_revoked": LeaseRevoked,
    "idempotency_key_reused": IdempotencyKeyReused,
}
_WITH_RETRY_AFTER: dict[str, type[SessionUnavailable] | type[Unavailable]] = {
    "session_unavailable": SessionUnavailable,
    "unavailable": Unavailable,
}
_FIELD = re.compile(
    r"(?:a key of )?"
    r"(selector(?:\.\S+)?|target|ttlSeconds|sessionMode|session|result|healthy|attr\.\S+|Idempotency-Key) "
)
_TEXT_LIMIT = 200
_GATEWAY_STATUSES = (502, 503, 504)


def error_of(status: int, headers: Mapping[str, str], body: bytes) -> EgressProxiesError:
    """Return the error that an answer stands for.

    Args:
        status: The HTTP status, not a success.
        headers: By lower-case name.
        body: The envelope, or whatever stands in its place.
    """
    envelope = _envelope(body)
    code = str(envelope.get("error", ""))
    message = str(envelope.get("message") or _text(body) or f"HTTP status {status}")
    retry_after = _seconds(headers.get("retry-after"))
    if code in _PLAIN:
        return _PLAIN[code](message, status=status, code=code)
    if code in _WITH_RETRY_AFTER:
        return _WITH_RETRY_AFTER[code](message, status=status, code=code, retry_after=retry_after)
    if code == "no_match":
        return _no_match(message, status, code, envelope, retry_after)
    # A load balancer before the API says the same without the envelope.
    if status in _GATEWAY_STATUSES and not code:
        return Unavailable(message, status=status, retry_after=retry_after)
    if 400 <= status < 500 and code:
        return InvalidRequest(message, status=status, code=code, field=_field(envelope, message))
    return UnexpectedAnswer(f"HTTP status {status}: {message}", status=status, code=code)


def _no_match(
    message: str, status: int, code: str, envelope: Mapping[str, Any], retry_after: float | None
) -> EgressProxiesError:
    try:
        earliest = envelope.get("earliestAvailable")
        return NoMatch(
            message,
            status=status,
            code=code,
            considered=int(envelope.get("considered", 0)),
            at_capacity=int(envelope.get("atCapacity", 0)),
            in_cooldown=int(envelope.get("inCooldown", 0)),
            unhealthy=int(envelope.get("unhealthy", 0)),
            earliest_available=datetime.fromisoformat(earliest) if earliest else None,
            retry_after=retry_after,
        )
    except (ValueError, TypeError) as error:
        return UnexpectedAnswer(f"a refusal with unusable details: {error}", status=status, code=code)


def _field(envelope: Mapping[str, Any], message: str) -> str:
    field = envelope.get("field")
    if isinstance(field, str):
        return field
    match = _FIELD.match(message)
    return match[1] if match else ""


def _envelope(body: bytes) -> dict[str, Any]:
    try:
        envelope = json.loads(body)
    except ValueError:
        return {}
    return envelope if isinstance(envelope, dict) else {}


def _text(body: bytes) -> str:
    return " ".join(body.decode("utf-8", "replace").split())[:_TEXT_LIMIT]


def _seconds(retry_after: str | None) -> float | None:
    """Return a Retry-After in seconds; the API never writes it as a date."""
    if retry_after is None or not (retry_after.isascii() and retry_after.isdigit()):
        return None
    return float(retry_after)
