"""The paths and operations of the API."""

from collections.abc import Iterable
from http import HTTPStatus

from api.lease_requests import KEY_HEADER, KEY_LONGEST, KEY_SHORTEST
from api.list_query import CONTINUE_LIMIT, PAGE_LIMIT
from api.openapi_errors import EVERYWHERE, WITH_BODY, WITH_BROKER, error_responses
from api.openapi_schemas import (
    JSON_TYPE,
    LEASE,
    LEASE_EXAMPLE,
    LEASE_ID_EXAMPLE,
    LEASE_REQUEST,
    PROXY_EXAMPLE,
    PROXY_LIST,
    RENEW_REQUEST,
    REPORT_REQUEST,
    Schema,
    ref,
    text,
)
from model.lease_operations import SELECTOR_PAIRS_LIMIT, TEXT_LIMIT

CONTINUE_FORMAT = "continue-token"
TAG_LEASES = "Leases"
TAG_PROXIES = "Proxies"
TAG_SERVICE = "Service"


def paths() -> dict[str, Schema]:
    """Return every path with its operations."""
    return {
        "/v1/leases": {"post": _acquire()},
        "/v1/leases/{id}": {"get": _look(), "delete": _release()},
        "/v1/leases/{id}/renew": {"post": _renew()},
        "/v1/leases/{id}/report": {"post": _report()},
        "/v1/proxies": {"get": _list_proxies()},
        "/healthz": {"get": _health()},
        "/openapi.json": {"get": _openapi()},
        "/docs": {"get": _docs()},
    }


def _operation(
    operation_id: str,
    tag: str,
    summary: str,
    description: str,
    success: dict[HTTPStatus, Schema],
    errors: Iterable[str],
    *,
    parameters: list[Schema] | None = None,
    body: Schema | None = None,
    is_open: bool = False,
) -> Schema:
    operation: Schema = {
        "operationId": operation_id,
        "tags": [tag],
        "summary": summary,
        "description": description,
        "responses": {**{str(status.value): answer for status, answer in success.items()}, **error_responses(errors)},
    }
    if parameters:
        operation["parameters"] = parameters
    if body:
        operation["requestBody"] = body
    if is_open:
        operation["security"] = []
    return operation


def _json(description: str, schema: str, example: Schema) -> Schema:
    return {"description": description, "content": {JSON_TYPE: {"schema": ref(schema), "example": example}}}


def _body(schema: str, example: Schema) -> Schema:
    return {
        "required": True,
        "description": "A JSON object in UTF-8 of at most 64 KiB, whatever content type it claims.",
        "content": {JSON_TYPE: {"schema": ref(schema), "example": example}},
    }


def _lease_id() -> Schema:
    return {
        "name": "id",
        "in": "path",
        "required": True,
        "schema": {"type": "string", "minLength": 1},
        "description": "The lease's id, as `leaseID` gave it.",
        "example": LEASE_ID_EXAMPLE,
    }


def _acquire() -> Schema:
    example = {"selector": {"geo": "eu"}, "ttlSeconds": 300, "target": "example.com"}
    return _operation(
        "acquireLease",
        TAG_LEASES,
        "Acquire a lease",
        "Grants a lease on the proxy that matches and has the fewest running leases; among those the one with the "
        "lowest latency, then the first by `id`. Only a healthy proxy below its `maxLeases` is handed out, and none "
        "that rests from the target. Use `proxy.ip` and `proxy.port` as an HTTP proxy until `expiresAt`.",
        {HTTPStatus.CREATED: {**_json("The lease.", LEASE, LEASE_EXAMPLE), "links": _links()}},
        (
            *WITH_BODY,
            "invalid_ttl",
            "invalid_idempotency_key",
            "idempotency_key_reused",
            "no_match",
            "session_unavailable",
            "lease_expired",
        ),
        parameters=[_idempotency_key()],
        body=_body(LEASE_REQUEST, example),
    )


def _idempotency_key() -> Schema:
    return {
        "name": KEY_HEADER,
        "in": "header",
        "schema": {"type": "string", "pattern": f"^[!-~]{{{KEY_SHORTEST},{KEY_LONGEST}}}$"},
        "description": "Makes a retry safe: the same key and body give the same lease while it lives. Use a UUID.",
        "example": "0f8fad5b-d9cb-469f-a165-70867728950e",
    }


def _links() -> Schema:
    return {
        operation_id: {"operationId": operation_id, "parameters": {"id": "$response.body#/leaseID"}}
        for operation_id in ("getLease", "renewLease", "reportLease", "releaseLease")
    }


def _look() -> Schema:
    return _operation(
        "getLease",
        TAG_LEASES,
        "Look at a lease",
        "Answers with a lease that is running.",
        {HTTPStatus.OK: _json("The lease.", LEASE, LEASE_EXAMPLE)},
        (*WITH_BROKER, "unknown_lease"),
        parameters=[_lease_id()],
    )


def _renew() -> Schema:
    return _operation(
        "renewLease",
        TAG_LEASES,
        "Renew a lease",
        "Lets a running lease end `ttlSeconds` from now instead. While its proxy drains, a renewal adds nothing beyond "
        "the end of the drain.",
        {HTTPStatus.OK: _json("The lease, with its new end.", LEASE, LEASE_EXAMPLE)},
        (*WITH_BODY, "invalid_ttl", "unknown_lease", "lease_expired", "lease_revoked"),
        parameters=[_lease_id()],
        body=_body(RENEW_REQUEST, {"ttlSeconds": 300}),
    )


def _release() -> Schema:
    return _operation(
        "releaseLease",
        TAG_LEASES,
        "Release a lease early",
        "Frees the slot at once. May be repeated, and says the same for an id that never was.",
        {HTTPStatus.NO_CONTENT: {"description": "The lease is over."}},
        WITH_BROKER,
        parameters=[_lease_id()],
    )


def _report() -> Schema:
    return _operation(
        "reportLease",
        TAG_LEASES,
        "Report how the target treated the proxy",
        "A lease that has ended can be reported on until the cooldown time has passed.",
        {HTTPStatus.NO_CONTENT: {"description": "The report was taken."}},
        (*WITH_BODY, "invalid_result", "unknown_lease"),
        parameters=[_lease_id()],
        body=_body(REPORT_REQUEST, {"result": "rate_limited", "target": "example.com"}),
    )


def _list_proxies() -> Schema:
    healthy = {
        "name": "healthy",
        "in": "query",
        "schema": {"type": "boolean"},
        "description": "Only proxies that are healthy, or only those that are not.",
        "example": True,
    }
    attributes = {
        "name": "attributes",
        "in": "query",
        "style": "form",
        "explode": True,
        "schema": {
            "type": "object",
            "patternProperties": {r"^attr\.": text(TEXT_LIMIT)},
        },
        "description": f"`attr.<key>=<value>`, for at most {SELECTOR_PAIRS_LIMIT} keys of at most {TEXT_LIMIT} bytes: "
        "only proxies whose attributes have all these values. Of a repeated key the first value counts.",
        "example": {"attr.geo": "eu"},
    }
    limit = {
        "name": "limit",
        "in": "query",
        "schema": {"type": "integer", "minimum": 1, "maximum": PAGE_LIMIT, "default": PAGE_LIMIT},
        "description": "Most proxies in the answer.",
        "example": 500,
    }
    after = {
        "name": "continue",
        "in": "query",
        "schema": {"type": "string", "format": CONTINUE_FORMAT, "maxLength": CONTINUE_LIMIT},
        "description": "The next page: what the page before had in the field `continue`.",
    }
    known = {
        "name": "If-None-Match",
        "in": "header",
        "schema": {"type": "string"},
        "description": "An `ETag` of an earlier answer to the same query: 304 without a body while nothing changed.",
    }
    answer = _json("The proxies.", PROXY_LIST, {"proxies": [PROXY_EXAMPLE], "count": 1})
    return _operation(
        "listProxies",
        TAG_PROXIES,
        "List proxies",
        "Lists the proxies that match, in order of `id`, without those that are being deleted. Other parameters are "
        "ignored. With `Accept-Encoding: gzip` a large answer comes compressed.",
        {
            HTTPStatus.OK: {**answer, "headers": _list_headers()},
            HTTPStatus.NOT_MODIFIED: {"description": "Nothing changed.", "headers": _list_headers()},
        },
        (*WITH_BROKER, "invalid_query"),
        parameters=[healthy, attributes, limit, after, known],
    )


def _list_headers() -> dict[str, Schema]:
    return {
        "ETag": {
            "description": "Equal for equal content.",
            "required": True,
            "schema": {"type": "string", "pattern": '^"[0-9a-f]{32}(-gzip)?"$'},
        },
        "Age": {
            "description": "Set while the broker cannot be reached: seconds since the list that is served was made.",
            "schema": {"type": "integer", "minimum": 1, "maximum": 30},
        },
    }


def _health() -> Schema:
    content = {"text/plain": {"schema": {"type": "string", "const": "ok\n"}, "example": "ok\n"}}
    return _operation(
        "health",
        TAG_SERVICE,
        "Whether the process serves",
        "Asks neither the broker nor Temporal.",
        {HTTPStatus.OK: {"description": "It does.", "content": content}},
        EVERYWHERE,
        is_open=True,
    )


def _openapi() -> Schema:
    content = {JSON_TYPE: {"schema": {"type": "object", "required": ["openapi", "info", "paths"]}}}
    return _operation(
        "openapi",
        TAG_SERVICE,
        "This description, for programs",
        "OpenAPI 3.1.",
        {HTTPStatus.OK: {"description": "The document.", "content": content}},
        EVERYWHERE,
        is_open=True,
    )


def _docs() -> Schema:
    policy = {"description": "Lets the page load nothing.", "required": True, "schema": {"type": "string"}}
    return _operation(
        "docs",
        TAG_SERVICE,
        "This description, for people",
        "One page that loads nothing else.",
        {
            HTTPStatus.OK: {
                "description": "The page.",
                "content": {"text/html": {"schema": {"type": "string"}}},
                "headers": {"Content-Security-Policy": policy},
            }
        },
        EVERYWHERE,
        is_open=True,
    )
