"""The OpenAPI document of the API, and the routes that serve it."""

import json

from aiohttp import web

from api import openapi_operations, openapi_schemas
from api.docs_page import CONTENT_SECURITY_POLICY, docs_page
from api.openapi_schemas import Schema
from api.settings import ApiSettings

OPENAPI_PATH = "/openapi.json"
DOCS_PATH = "/docs"

_DESCRIPTION = """\
Lease egress proxies: acquire a lease, send requests through its proxy, report how the \
site treated it, renew or release it.

Bodies are JSON in UTF-8. Every answer that is no success has the same envelope: `error` is a machine code that stays, \
`message` is for humans. New fields may be added to answers at any time.

Every GET answers HEAD too. A path that does not exist is 404 `not_found`; a method that a path does not have is \
405 `method_not_allowed`. Both need the token as well.

A request is answered within about 3 seconds: 503 `unavailable` while the broker is out of reach.
"""


def openapi_document(settings: ApiSettings) -> Schema:
    """Return the document (OpenAPI 3.1, https://spec.openapis.org/oas/v3.1.1.html), true for these settings."""
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Egress proxies: lease API",
            "version": "1.0",
            "description": _DESCRIPTION,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/", "description": "This server."}],
        # Without a token nothing is asked for, and a client that sends one all the same is served.
        "security": [{"bearer": []}] if settings.token else [{}, {"bearer": []}],
        "tags": [
            {"name": openapi_operations.TAG_LEASES, "description": "Get a proxy and say how it went."},
            {"name": openapi_operations.TAG_PROXIES, "description": "What there is to lease."},
            {"name": openapi_operations.TAG_SERVICE, "description": "About the API itself; needs no token."},
        ],
        "paths": openapi_operations.paths(),
        "components": {
            "schemas": openapi_schemas.schemas(settings),
            "securitySchemes": {
                "bearer": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "The token that the server was started with (`DISCOVERY_TOKEN`).",
                }
            },
        },
    }


def description_routes(settings: ApiSettings) -> list[web.RouteDef]:
    """Return the routes of the document and of its page; both are made once."""
    document = openapi_document(settings)
    encoded = json.dumps(document, separators=(",", ":")).encode() + b"\n"
    page = docs_page(document).encode()

    async def openapi(_: web.Request) -> web.Response:
        return web.Response(body=encoded, content_type="application/json")

    async def docs(_: web.Request) -> web.Response:
        headers = {
            "Content-Security-Policy": CONTENT_SECURITY_POLICY,
            "X-Content-Type-Options": "nosniff",
            "Referrer-Policy": "no-referrer",
        }
        return web.Response(body=page, content_type="text/html", charset="utf-8", headers=headers)

    return [web.get(OPENAPI_PATH, openapi), web.get(DOCS_PATH, docs)]
