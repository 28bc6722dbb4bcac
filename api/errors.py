"""Errors as the client sees them: one envelope, whatever went wrong."""

import json
import logging
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from aiohttp import web
from aiohttp.typedefs import Handler

from model.errors import UnavailableError

logger = logging.getLogger(__name__)

RETRY_AFTER_SECONDS = 1
BODY_LIMIT = 64 * 1024
"""Longest request body, decompressed."""


class ApiError(Exception):
    """An answer other than success, with its machine code."""

    def __init__(
        self,
        status: HTTPStatus,
        code: str,
        message: str,
        *,
        details: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.details = details or {}
        self.headers = headers or {}

    def response(self) -> web.Response:
        """Return the envelope."""
        body = {"error": self.code, "message": self.message, **self.details}
        return json_response(body, self.status, self.headers)


def json_response(
    body: Mapping[str, Any], status: HTTPStatus = HTTPStatus.OK, headers: Mapping[str, str] | None = None
) -> web.Response:
    """Return a JSON answer; plain ASCII, so that no text of a client's can break it."""
    encoded = json.dumps(body, separators=(",", ":")).encode() + b"\n"
    return web.Response(body=encoded, status=status, content_type="application/json", headers=headers)


def invalid_body(message: str) -> ApiError:
    """Return the error for a body that cannot be used."""
    return ApiError(HTTPStatus.BAD_REQUEST, "invalid_body", message)


def unavailable(message: str) -> ApiError:
    """Return the error for a broker that does not answer."""
    headers = {"Retry-After": str(RETRY_AFTER_SECONDS)}
    return ApiError(HTTPStatus.SERVICE_UNAVAILABLE, "unavailable", message, headers=headers)


@web.middleware
async def error_middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Turn everything that is raised into the envelope."""
    try:
        return await handler(request)
    except ApiError as error:
        return error.response()
    except UnavailableError as error:
        return unavailable(str(error)).response()
    except web.HTTPException as error:
        return from_http_exception(error).response()
    except Exception:
        logger.exception("unhandled error in the handler of %s", route_of(request))
        return ApiError(HTTPStatus.INTERNAL_SERVER_ERROR, "internal", "internal server error").response()


def route_of(request: web.Request) -> str:
    """Return the request's route without what the client put into it, fit for logs and labels."""
    resource = request.match_info.route.resource
    return resource.canonical if resource is not None else "unknown"


def from_http_exception(error: web.HTTPException) -> ApiError:
    """Return aiohttp's own refusal as one of ours."""
    status = HTTPStatus(error.status)
    if status is HTTPStatus.NOT_FOUND:
        return ApiError(status, "not_found", "no such path")
    if status is HTTPStatus.METHOD_NOT_ALLOWED:
        allowed = error.headers.get("Allow", "")
        return ApiError(status, "method_not_allowed", f"allowed here: {allowed}", headers={"Allow": allowed})
    if status is HTTPStatus.REQUEST_ENTITY_TOO_LARGE:
        return body_too_large()
    return ApiError(status, status.name.lower(), status.phrase)


def body_too_large() -> ApiError:
    """Return the error for a body over the limit."""
    return ApiError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "body_too_large", f"the body is over {BODY_LIMIT} bytes")
