"""One line per request, without anything the client chose."""

import logging
import time

from aiohttp import hdrs, web
from aiohttp.typedefs import Handler

from api.auth import HEALTH_PATH
from api.errors import route_of

logger = logging.getLogger(__name__)

OWN_FACTS = "own_facts"
"""Attribute of a log record of which every word is ours: its fields by name. No secret can be in it, so that nobody has
to look for one, which costs more than the rest of a line."""


@web.middleware
async def access_log_middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Log method, route, status and duration; health checks are noise."""
    if request.path == HEALTH_PATH or not logger.isEnabledFor(logging.INFO):
        return await handler(request)
    start = time.perf_counter()
    response = await handler(request)
    facts = {
        # A client may send any word as a method.
        "method": request.method if request.method in hdrs.METH_ALL else "unknown",
        "route": route_of(request),
        "status": response.status,
        "durationMillis": round((time.perf_counter() - start) * 1000, 1),
    }
    logger.info("%(method)s %(route)s %(status)s %(durationMillis)s ms", facts, extra={**facts, OWN_FACTS: facts})
    return response
