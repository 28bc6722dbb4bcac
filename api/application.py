"""The aiohttp application of the lease API."""

from aiohttp import web
from prometheus_client import CollectorRegistry

from api.access_log import access_log_middleware
from api.auth import HEALTH_PATH, auth_middleware
from api.errors import BODY_LIMIT, error_middleware
from api.leases import LeaseHandlers
from api.list_query import parse_query
from api.listing import Listing
from api.metrics import ApiMetrics
from api.openapi import description_routes
from api.settings import ApiSettings
from leasing.client import BrokerClient


def create_app(settings: ApiSettings, broker: BrokerClient, registry: CollectorRegistry) -> web.Application:
    """Return the application; it closes nothing that it was given.

    Args:
        settings: The API's settings.
        broker: The broker's client, of the event loop that serves the application.
        registry: Where the API's counters go.
    """
    leases = LeaseHandlers(settings, broker, ApiMetrics(registry))
    listing = Listing(broker)

    async def health(_: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def list_proxies(request: web.Request) -> web.Response:
        return await listing.answer(request, parse_query(request.query))

    app = web.Application(
        middlewares=[access_log_middleware, error_middleware, auth_middleware(settings.token)],
        client_max_size=BODY_LIMIT,
    )
    app.add_routes(
        [
            web.get(HEALTH_PATH, health),
            *description_routes(settings),
            web.get("/v1/proxies", list_proxies),
            web.post("/v1/leases", leases.acquire),
            web.get("/v1/leases/{id:[^/]+}", leases.look),
            web.delete("/v1/leases/{id:[^/]+}", leases.release),
            web.post("/v1/leases/{id:[^/]+}/renew", leases.renew),
            web.post("/v1/leases/{id:[^/]+}/report", leases.report),
        ]
    )
    return app
