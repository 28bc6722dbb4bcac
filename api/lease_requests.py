"""What a request about leases asks for, read from its body and headers."""

import re
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from aiohttp import web

from api.body import check_text, integer_field, text_field
from api.errors import ApiError, invalid_body
from leasing.client import AcquireOptions
from model import lease_keys
from model.lease_operations import RESULTS, SELECTOR_PAIRS_LIMIT, SESSION_LIMIT, TEXT_LIMIT

DEFAULT_TTL_SECONDS = 300
KEY_HEADER = "Idempotency-Key"
KEY_SHORTEST = 8
KEY_LONGEST = 128
RELAXED = "relaxed"
STRICT = "strict"
SESSION_MODES = (RELAXED, STRICT)

_KEY = re.compile(rf"[\x21-\x7e]{{{KEY_SHORTEST},{KEY_LONGEST}}}")


@dataclass(frozen=True, kw_only=True)
class LeaseRequest:
    """The body of ``POST /v1/leases``."""

    selector: dict[str, str]
    target: str
    ttl_seconds: int
    session: str
    strict: bool

    def options(self, key: str) -> AcquireOptions:
        """Return what the broker has to know beyond a plain acquire; ``key`` is "" without an idempotency key."""
        options = AcquireOptions()
        if key:
            options["body"] = lease_keys.request_hash(
                self.selector, self.target, self.ttl_seconds, self.session, self.strict
            )
        if self.session:
            options["session"] = lease_keys.session_hash(self.session)
            options["strict"] = self.strict
        return options


def read_lease_request(body: dict[str, Any], longest_ttl: int) -> LeaseRequest:
    """Read the body of an acquire.

    Args:
        body: The request's object.
        longest_ttl: Seconds.

    Raises:
        ApiError: 400 with the field's name.
    """
    return LeaseRequest(
        selector=_selector(body),
        target=text_field(body, "target", TEXT_LIMIT),
        ttl_seconds=read_ttl(body, longest_ttl),
        session=text_field(body, "session", SESSION_LIMIT),
        strict=_session_mode(body) == STRICT,
    )


def read_ttl(body: dict[str, Any], longest: int) -> int:
    """Return ``ttlSeconds``; absent, null and 0 are the default.

    Raises:
        ApiError: 400 ``invalid_ttl``, or ``invalid_body`` for what is no integer.
    """
    ttl_seconds = integer_field(body, "ttlSeconds")
    if not 0 <= ttl_seconds <= longest:
        raise ApiError(HTTPStatus.BAD_REQUEST, "invalid_ttl", f"ttlSeconds must be between 1 and {longest}")
    return ttl_seconds or min(DEFAULT_TTL_SECONDS, longest)


def read_result(body: dict[str, Any]) -> str:
    """Return ``result``.

    Raises:
        ApiError: 400 ``invalid_result``.
    """
    result = text_field(body, "result", TEXT_LIMIT)
    if result not in RESULTS:
        message = f"result must be one of {', '.join(RESULTS)}; got {result[:32]!r}"
        raise ApiError(HTTPStatus.BAD_REQUEST, "invalid_result", message)
    return result


def read_idempotency_key(request: web.Request) -> str:
    """Return the idempotency key, "" without one.

    Raises:
        ApiError: 400 ``invalid_idempotency_key``.
    """
    values = request.headers.getall(KEY_HEADER, [])
    if not values:
        return ""
    if len(values) > 1 or not _KEY.fullmatch(values[0]):
        message = f"{KEY_HEADER} must be given once, with {KEY_SHORTEST} to {KEY_LONGEST} visible ASCII characters"
        raise ApiError(HTTPStatus.BAD_REQUEST, "invalid_idempotency_key", message)
    return values[0]


def _selector(body: dict[str, Any]) -> dict[str, str]:
    selector = body.get("selector")
    if selector is None:
        return {}
    if not isinstance(selector, dict):
        raise invalid_body("selector must be an object")
    if len(selector) > SELECTOR_PAIRS_LIMIT:
        raise invalid_body(f"selector must have at most {SELECTOR_PAIRS_LIMIT} pairs")
    for key, value in selector.items():
        check_text(key, "a key of selector", TEXT_LIMIT)
        check_text(value, f"selector.{key}", TEXT_LIMIT)
    return selector


def _session_mode(body: dict[str, Any]) -> str:
    mode = text_field(body, "sessionMode", TEXT_LIMIT) or RELAXED
    if mode not in SESSION_MODES:
        raise invalid_body(f"sessionMode must be one of {', '.join(SESSION_MODES)}; got {mode[:32]!r}")
    return mode
