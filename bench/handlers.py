"""The product's own HTTP handlers over a broker of the bench's, so that only what keeps the leases differs."""

import asyncio
import signal
from typing import cast

from prometheus_client import CollectorRegistry

from api.application import create_app
from api.server import serve
from api.settings import ApiSettings
from app.dev.ports import LOOPBACK
from app.logs import set_up_logs
from leasing.client import BrokerClient


async def serve_until_terminated(broker: object, port: int) -> None:
    """Serve the lease API until SIGTERM.

    Args:
        broker: Has the methods of ``BrokerClient`` that the handlers of the load call.
        port: On loopback.
    """
    # A line per request is part of what the product's API does.
    set_up_logs("text")
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    settings = ApiSettings(discovery_addr=f"{LOOPBACK}:{port}")
    await serve(create_app(settings, cast("BrokerClient", broker), CollectorRegistry()), settings, stop)
