"""The 4xx answers of a lease broker that did answer."""

import time
from http import HTTPStatus

from api.errors import ApiError
from api.views import no_match_counts, rfc3339
from leasing.client import Refusal
from model.lease_answers import NoMatch, SessionUnavailable, Word


def unknown_lease() -> ApiError:
    """Return the error for a lease that is not there."""
    return ApiError(HTTPStatus.NOT_FOUND, "unknown_lease", "no such lease")


def refused_acquire(refusal: Refusal) -> ApiError:
    """Return the error for an acquire without a lease."""
    if isinstance(refusal, NoMatch):
        details, headers = _when(refusal.earliest_millis)
        return ApiError(
            HTTPStatus.CONFLICT,
            "no_match",
            "no healthy proxy with free capacity matched the selector",
            details={**no_match_counts(refusal), **details},
            headers=headers,
        )
    if isinstance(refusal, SessionUnavailable):
        details, headers = _when(refusal.earliest_millis)
        message = "the session's proxy cannot be leased now"
        return ApiError(HTTPStatus.CONFLICT, "session_unavailable", message, details=details, headers=headers)
    if refusal is Word.KEY_REUSED:
        message = "Idempotency-Key was used for another request; use a new key"
        return ApiError(HTTPStatus.UNPROCESSABLE_ENTITY, "idempotency_key_reused", message)
    return lease_expired("the lease of this Idempotency-Key has ended; use a new key")


def refused_renewal(word: Word) -> ApiError:
    """Return the error for a lease that was not renewed."""
    if word is Word.REVOKED:
        message = "the proxy of the lease was replaced or deleted; acquire another lease"
        return ApiError(HTTPStatus.CONFLICT, "lease_revoked", message)
    if word is Word.LEASE_ENDED:
        return lease_expired("the lease has ended; acquire another one")
    return unknown_lease()


def lease_expired(message: str) -> ApiError:
    """Return the error for a lease that has ended."""
    return ApiError(HTTPStatus.CONFLICT, "lease_expired", message)


def _when(earliest_millis: int) -> tuple[dict[str, str], dict[str, str]]:
    """Return the field and the header that say when to come again; none where waiting does not help."""
    if not earliest_millis:
        return {}, {}
    left = earliest_millis - time.time_ns() // 1_000_000
    return {"earliestAvailable": rfc3339(earliest_millis)}, {"Retry-After": str(max(1, -(-left // 1000)))}
