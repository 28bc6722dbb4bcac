"""One line per request, without anything the client chose."""

import logging
import time

from aiohttp import web
from aiohttp.typedefs import Handler

from api.auth import HEALTH_PATH
from api.errors import route_of

logger = logging.getLogger(__name__)


@web.middleware
async def access_log_middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Log method, route, status and duration; health checks are noise."""
    if request.path == HEALTH_PATH or not logger.isEnabledFor(logging.INFO):
        return await handler(request)
    start = time.perf_counter()
    response = await handler(request)
    facts = {
        "method": request.method,
        "route": route_of(request),
        "status": response.status,
        "durationMillis": round((time.perf_counter() - start) * 1000, 1),
    }
    logger.info("request", extra=facts)
    return response
