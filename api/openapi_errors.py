"""Every machine code of the error envelope, and the responses that carry them."""

from collections.abc import Iterable
from http import HTTPStatus
from typing import Any, NamedTuple

from api.errors import BODY_LIMIT, RETRY_AFTER_SECONDS
from api.lease_requests import KEY_LONGEST, KEY_SHORTEST
from api.openapi_schemas import ERROR, JSON_TYPE, NO_MATCH, SESSION_UNAVAILABLE, Schema, ref
from model.lease_operations import RESULTS


class ErrorCode(NamedTuple):
    """One code; ``message`` is an example of what stands beside it."""

    status: HTTPStatus
    meaning: str
    message: str


CODES = {
    "bad_request": ErrorCode(
        HTTPStatus.BAD_REQUEST,
        "What came is not HTTP as the standard has it: header, length or request target are malformed.",
        "the request is not valid HTTP",
    ),
    "invalid_body": ErrorCode(
        HTTPStatus.BAD_REQUEST,
        "The body is not a JSON object in UTF-8, or a field has the wrong type or length; the message names it.",
        "target must be at most 255 bytes",
    ),
    "invalid_ttl": ErrorCode(
        HTTPStatus.BAD_REQUEST,
        "`ttlSeconds` is negative or over the maximum.",
        "ttlSeconds must be between 1 and 3600",
    ),
    "invalid_result": ErrorCode(
        HTTPStatus.BAD_REQUEST,
        "`result` is not one of the words.",
        f"result must be one of {', '.join(RESULTS)}; got 'OK'",
    ),
    "invalid_query": ErrorCode(
        HTTPStatus.BAD_REQUEST,
        "A query parameter has a value that cannot be; the message names it.",
        "healthy must be true or false, got 'maybe'",
    ),
    "invalid_idempotency_key": ErrorCode(
        HTTPStatus.BAD_REQUEST,
        "`Idempotency-Key` is too short, too long, not visible ASCII, or given twice.",
        f"Idempotency-Key must be given once, with {KEY_SHORTEST} to {KEY_LONGEST} visible ASCII characters",
    ),
    "unauthorized": ErrorCode(
        HTTPStatus.UNAUTHORIZED,
        "The bearer token is missing, wrong or given more than once.",
        "missing or invalid bearer token",
    ),
    "not_found": ErrorCode(HTTPStatus.NOT_FOUND, "There is no such path.", "no such path"),
    "unknown_lease": ErrorCode(
        HTTPStatus.NOT_FOUND,
        "No lease has this id, or it ended too long ago.",
        "no such lease",
    ),
    "method_not_allowed": ErrorCode(
        HTTPStatus.METHOD_NOT_ALLOWED,
        "The path has no such method; `Allow` names those it has.",
        "allowed here: POST",
    ),
    "request_timeout": ErrorCode(
        HTTPStatus.REQUEST_TIMEOUT,
        "The body did not arrive within 10 seconds.",
        "the body did not arrive in time",
    ),
    "no_match": ErrorCode(
        HTTPStatus.CONFLICT,
        "No proxy can be leased now; the counts say why.",
        "no healthy proxy with free capacity matched the selector",
    ),
    "session_unavailable": ErrorCode(
        HTTPStatus.CONFLICT,
        "The session is strict, and its proxy cannot be leased now.",
        "the session's proxy cannot be leased now",
    ),
    "lease_expired": ErrorCode(
        HTTPStatus.CONFLICT,
        "The lease has ended, or the one that the `Idempotency-Key` stands for has.",
        "the lease has ended; acquire another one",
    ),
    "lease_revoked": ErrorCode(
        HTTPStatus.CONFLICT,
        "The proxy of the lease was replaced or deleted, its endpoint was edited, or the end of its drain has come.",
        "the proxy of the lease was replaced or deleted; acquire another lease",
    ),
    "idempotency_key_reused": ErrorCode(
        HTTPStatus.UNPROCESSABLE_ENTITY,
        "The `Idempotency-Key` was used for another request.",
        "Idempotency-Key was used for another request; use a new key",
    ),
    "body_too_large": ErrorCode(
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        f"The body is over {BODY_LIMIT} bytes, decompressed.",
        f"the body is over {BODY_LIMIT} bytes",
    ),
    "unsupported_media_type": ErrorCode(
        HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
        "The content type names another charset than UTF-8.",
        "the charset of the body must be utf-8",
    ),
    "expectation_failed": ErrorCode(
        HTTPStatus.EXPECTATION_FAILED,
        "The header `Expect` asks for something other than `100-continue`.",
        "Expectation Failed",
    ),
    "internal": ErrorCode(
        HTTPStatus.INTERNAL_SERVER_ERROR,
        "A defect of the server; it logged what happened.",
        "internal server error",
    ),
    "unavailable": ErrorCode(
        HTTPStatus.SERVICE_UNAVAILABLE,
        "The lease broker or Temporal cannot be reached, or the broker takes no more. Try again after `Retry-After`.",
        "the lease broker did not answer in time",
    ),
}
"""All codes by name."""

EVERYWHERE = ("bad_request", "expectation_failed", "internal")
WITH_TOKEN = (*EVERYWHERE, "unauthorized")
WITH_BROKER = (*WITH_TOKEN, "unavailable")
WITH_BODY = (*WITH_BROKER, "invalid_body", "request_timeout", "body_too_large", "unsupported_media_type")

_DETAILS = {"no_match": NO_MATCH, "session_unavailable": SESSION_UNAVAILABLE}
"""The schema of a code that says more than its message: when to come again."""

_EXAMPLE_DETAILS: dict[str, dict[str, Any]] = {
    "no_match": {
        "considered": 3,
        "atCapacity": 1,
        "inCooldown": 1,
        "unhealthy": 1,
        "earliestAvailable": "2026-08-11T22:01:30.000Z",
    },
    "session_unavailable": {"earliestAvailable": "2026-08-11T22:01:30.000Z"},
}

RETRY_AFTER: Schema = {
    "description": "Seconds to wait before the next try.",
    "schema": {"type": "integer", "minimum": 1},
    "example": RETRY_AFTER_SECONDS,
}
_HEADERS: dict[HTTPStatus, dict[str, Schema]] = {
    HTTPStatus.UNAUTHORIZED: {
        "WWW-Authenticate": {
            "description": "The scheme that is asked for.",
            "required": True,
            "schema": {"type": "string", "const": "Bearer"},
        }
    },
    HTTPStatus.SERVICE_UNAVAILABLE: {"Retry-After": {**RETRY_AFTER, "required": True}},
}


def error_responses(codes: Iterable[str]) -> dict[str, Schema]:
    """Return the responses of an operation that may answer with these codes, by status."""
    by_status: dict[HTTPStatus, list[str]] = {}
    for code in sorted(set(codes), key=lambda code: (CODES[code].status, code)):
        by_status.setdefault(CODES[code].status, []).append(code)
    return {str(status.value): _response(status, names) for status, names in by_status.items()}


def _response(status: HTTPStatus, codes: list[str]) -> Schema:
    meanings = {code: CODES[code].meaning for code in codes}
    headers = dict(_HEADERS.get(status, {}))
    if any(code in _DETAILS for code in codes):
        headers["Retry-After"] = RETRY_AFTER
    return {
        "description": "\n".join(f"`{code}`: {meaning}" for code, meaning in meanings.items()),
        **({"headers": headers} if headers else {}),
        "content": {
            JSON_TYPE: {
                "schema": _schema(codes),
                "examples": {code: {"value": error_example(code)} for code in codes},
            }
        },
        "x-error-codes": meanings,
    }


def _schema(codes: list[str]) -> Schema:
    plain = [code for code in codes if code not in _DETAILS]
    detailed = [_with_codes(_DETAILS[code], [code]) for code in codes if code in _DETAILS]
    choices = [*([_with_codes(ERROR, plain)] if plain else []), *detailed]
    return choices[0] if len(choices) == 1 else {"oneOf": choices}


def _with_codes(schema: str, codes: list[str]) -> Schema:
    return {"allOf": [ref(schema), {"properties": {"error": {"enum": codes}}}]}


def error_example(code: str) -> dict[str, Any]:
    """Return an answer with this code."""
    return {"error": code, "message": CODES[code].message, **_EXAMPLE_DETAILS.get(code, {})}
