"""``/v1/leases``: acquire, release, report."""

import secrets
from http import HTTPStatus
from typing import Any

from aiohttp import web

from api.body import check_text, integer_field, read_object, text_field
from api.errors import ApiError, invalid_body, json_response
from api.metrics import GRANTED, NO_MATCH, UNAVAILABLE, ApiMetrics
from api.settings import ApiSettings
from api.views import lease_json, no_match_counts
from leasing.client import BrokerClient
from model import lease_ids
from model.errors import UnavailableError
from model.lease_answers import Granted, NoMatch
from model.lease_operations import RESULTS, SELECTOR_PAIRS_LIMIT, TEXT_LIMIT

DEFAULT_TTL_SECONDS = 300


class LeaseHandlers:
    """The handlers of leases."""

    def __init__(self, settings: ApiSettings, broker: BrokerClient, metrics: ApiMetrics) -> None:
        self._settings = settings
        self._broker = broker
        self._metrics = metrics

    async def acquire(self, request: web.Request) -> web.Response:
        """``POST /v1/leases``: 201 with the lease, or 409 with the counts of why there is none."""
        body = await read_object(request)
        selector = _selector(body)
        target = text_field(body, "target", TEXT_LIMIT)
        ttl_seconds = self._ttl_seconds(body)
        lease_id = lease_ids.from_bytes(secrets.token_bytes(lease_ids.RAW_BYTES))
        answer = await self._acquire(lease_id, selector, target, ttl_seconds)
        if isinstance(answer, NoMatch):
            raise ApiError(
                HTTPStatus.CONFLICT,
                "no_match",
                "no healthy proxy with free capacity matched the selector",
                details=no_match_counts(answer),
            )
        return json_response(lease_json(lease_id, answer, ttl_seconds), HTTPStatus.CREATED)

    async def release(self, request: web.Request) -> web.Response:
        """``DELETE /v1/leases/{id}``: always 204, for an unknown lease too."""
        lease_id = request.match_info["id"]
        if lease_ids.to_bytes(lease_id) is not None:
            await self._broker.release(lease_id)
        return web.Response(status=HTTPStatus.NO_CONTENT)

    async def report(self, request: web.Request) -> web.Response:
        """``POST /v1/leases/{id}/report``: 204, or 404 for an unknown lease."""
        body = await read_object(request)
        result = _result(body)
        target = text_field(body, "target", TEXT_LIMIT)
        lease_id = request.match_info["id"]
        known = lease_ids.to_bytes(lease_id) is not None and await self._broker.report(
            lease_id, result, target, self._settings.cooldown_millis
        )
        if not known:
            raise ApiError(HTTPStatus.NOT_FOUND, "unknown_lease", "no such lease")
        return web.Response(status=HTTPStatus.NO_CONTENT)

    async def _acquire(
        self, lease_id: str, selector: dict[str, str], target: str, ttl_seconds: int
    ) -> Granted | NoMatch:
        try:
            answer = await self._broker.acquire(
                lease_id, selector, target, ttl_seconds * 1000, self._settings.cooldown_millis
            )
        except UnavailableError:
            self._metrics.lease_request(UNAVAILABLE)
            raise
        self._metrics.lease_request(GRANTED if isinstance(answer, Granted) else NO_MATCH)
        return answer

    def _ttl_seconds(self, body: dict[str, Any]) -> int:
        longest = self._settings.max_ttl_seconds
        ttl_seconds = integer_field(body, "ttlSeconds")
        if not 0 <= ttl_seconds <= longest:
            raise ApiError(HTTPStatus.BAD_REQUEST, "invalid_ttl", f"ttlSeconds must be between 1 and {longest}")
        return ttl_seconds or min(DEFAULT_TTL_SECONDS, longest)


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


def _result(body: dict[str, Any]) -> str:
    result = text_field(body, "result", TEXT_LIMIT)
    if result not in RESULTS:
        message = f"result must be one of {', '.join(RESULTS)}; got {result[:32]!r}"
        raise ApiError(HTTPStatus.BAD_REQUEST, "invalid_result", message)
    return result
