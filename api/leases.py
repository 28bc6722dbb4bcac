"""``/v1/leases``: acquire, look at, renew, release, report."""

import secrets
from http import HTTPStatus

from aiohttp import web

from api.body import read_object, text_field
from api.errors import json_response
from api.lease_requests import (
    DEFAULT_TTL_SECONDS,
    LeaseRequest,
    read_idempotency_key,
    read_lease_request,
    read_result,
    read_ttl,
)
from api.metrics import GRANTED, NO_MATCH, UNAVAILABLE, ApiMetrics
from api.refusals import refused_acquire, refused_renewal, unknown_lease
from api.settings import ApiSettings
from api.views import lease_json
from leasing.client import BrokerClient, Refusal
from model import lease_ids, lease_keys
from model.errors import UnavailableError
from model.lease_answers import Granted
from model.lease_operations import TEXT_LIMIT

__all__ = ["DEFAULT_TTL_SECONDS", "LeaseHandlers"]


class LeaseHandlers:
    """The handlers of leases."""

    def __init__(self, settings: ApiSettings, broker: BrokerClient, metrics: ApiMetrics) -> None:
        self._settings = settings
        self._broker = broker
        self._metrics = metrics

    async def acquire(self, request: web.Request) -> web.Response:
        """``POST /v1/leases``: 201 with the lease, 409 with why there is none, 422 for a key of another request."""
        key = read_idempotency_key(request)
        wanted = read_lease_request(await read_object(request), self._settings.max_ttl_seconds)
        if key:
            lease_id = lease_keys.lease_id_of_key(key)
        else:
            lease_id = lease_ids.from_bytes(secrets.token_bytes(lease_ids.RAW_BYTES))
        answer = await self._acquire(lease_id, wanted, key)
        if not isinstance(answer, Granted):
            raise refused_acquire(answer)
        return json_response(lease_json(lease_id, answer), HTTPStatus.CREATED)

    async def look(self, request: web.Request) -> web.Response:
        """``GET /v1/leases/{id}``: 200 with a running lease, 404 for any other."""
        lease_id = _lease_id(request)
        lease = await self._broker.look(lease_id) if lease_id else None
        if lease is None:
            raise unknown_lease()
        return json_response(lease_json(lease_id, lease))

    async def renew(self, request: web.Request) -> web.Response:
        """``POST /v1/leases/{id}/renew``: 200 with the lease, 404, or 409 when it has ended or was revoked."""
        ttl_seconds = read_ttl(await read_object(request), self._settings.max_ttl_seconds)
        lease_id = _lease_id(request)
        if not lease_id:
            raise unknown_lease()
        answer = await self._broker.renew(lease_id, ttl_seconds * 1000)
        if not isinstance(answer, Granted):
            raise refused_renewal(answer)
        return json_response(lease_json(lease_id, answer))

    async def release(self, request: web.Request) -> web.Response:
        """``DELETE /v1/leases/{id}``: always 204, for an unknown lease too."""
        lease_id = _lease_id(request)
        if lease_id:
            await self._broker.release(lease_id)
        return web.Response(status=HTTPStatus.NO_CONTENT)

    async def report(self, request: web.Request) -> web.Response:
        """``POST /v1/leases/{id}/report``: 204, or 404 for an unknown lease."""
        body = await read_object(request)
        result = read_result(body)
        target = text_field(body, "target", TEXT_LIMIT)
        lease_id = _lease_id(request)
        if not lease_id or not await self._broker.report(lease_id, result, target, self._settings.cooldown_millis):
            raise unknown_lease()
        return web.Response(status=HTTPStatus.NO_CONTENT)

    async def _acquire(self, lease_id: str, wanted: LeaseRequest, key: str) -> Granted | Refusal:
        try:
            answer = await self._broker.acquire(
                lease_id,
                wanted.selector,
                wanted.target,
                wanted.ttl_seconds * 1000,
                self._settings.cooldown_millis,
                **wanted.options(key),
            )
        except UnavailableError:
            self._metrics.lease_request(UNAVAILABLE)
            raise
        self._metrics.lease_request(GRANTED if isinstance(answer, Granted) else NO_MATCH)
        return answer


def _lease_id(request: web.Request) -> str:
    """Return the id in the path, "" for one that no lease has."""
    lease_id = request.match_info["id"]
    return lease_id if lease_ids.to_bytes(lease_id) is not None else ""
