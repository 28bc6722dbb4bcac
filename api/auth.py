"""The bearer token."""

import hmac
from http import HTTPStatus

from aiohttp import hdrs, web
from aiohttp.typedefs import Handler, Middleware

from api.errors import ApiError

HEALTH_PATH = "/healthz"
OPEN_PATHS = frozenset({HEALTH_PATH, "/openapi.json", "/docs"})
"""What is served without a token: whether the process lives, and what the API looks like. No secret is in it."""

_PREFIX = b"Bearer "


def auth_middleware(token: bytes) -> Middleware:
    """Return a middleware that asks everything but ``OPEN_PATHS`` for the token; an empty token asks for nothing."""

    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        if token and request.path not in OPEN_PATHS and not _is_authorized(request, token):
            raise ApiError(
                HTTPStatus.UNAUTHORIZED,
                "unauthorized",
                "missing or invalid bearer token",
                headers={hdrs.WWW_AUTHENTICATE: "Bearer"},
            )
        return await handler(request)

    return check


def _is_authorized(request: web.Request, token: bytes) -> bool:
    values = request.headers.getall(hdrs.AUTHORIZATION, [])
    if len(values) != 1:
        return False
    # aiohttp keeps bytes that are no UTF-8 as surrogates; compared as text, they would raise.
    value = values[0].encode("utf-8", "surrogateescape")
    return value.startswith(_PREFIX) and hmac.compare_digest(value.removeprefix(_PREFIX), token)
