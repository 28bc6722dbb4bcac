"""The lease API process."""

import asyncio

from api.application import create_app
from api.readiness import BrokerReadiness
from api.server import ApiServer
from api.settings import check_exposure
from app.components import components
from app.serving import serving
from app.settings import LeaseApiSettings


async def run_lease_api(settings: LeaseApiSettings, stop: asyncio.Event) -> None:
    """Serve until ``stop`` is set, then answer what has been asked.

    Raises:
        ConfigurationError: A setting cannot be used.
    """
    check_exposure(settings.api)
    async with components(settings.cluster, needs_cluster=False) as parts:
        server = ApiServer(create_app(settings.api, parts.broker, parts.metrics), settings.api)
        broker = BrokerReadiness(parts.broker)
        async with serving(settings.serving, parts.metrics, lambda: server.ready and broker.ready):
            await server.start()
            checking = asyncio.create_task(broker.run(), name="readiness")
            try:
                await stop.wait()
                await server.stop()
            finally:
                checking.cancel()
                await asyncio.gather(checking, return_exceptions=True)
