"""Readiness follows the broker."""

import asyncio

from temporalio.client import Client

from api.readiness import BrokerReadiness
from leasing.client import BrokerClient
from tests.conftest import TemporalFactory
from tests.leasing.brokers import INSTALLATION
from tests.leasing.polling import wait_until
from tests.workflows.lease_broker_worker import running_broker


async def test_ready_while_temporal_and_the_broker_answer(own_temporal: TemporalFactory) -> None:
    server = await own_temporal()
    client = await Client.connect(server.address)
    readiness = BrokerReadiness(BrokerClient(client, INSTALLATION), check_seconds=0.05)

    async def ready() -> bool:
        return readiness.ready

    async def not_ready() -> bool:
        return not readiness.ready

    assert await not_ready()
    await readiness.check()
    assert await not_ready(), "there is no worker for the broker"
    checking = asyncio.create_task(readiness.run())
    try:
        async with running_broker(client):
            await wait_until(ready)
        await wait_until(not_ready)
        async with running_broker(client):
            await wait_until(ready)
            await server.stop()
            await wait_until(not_ready)
            await server.start()
            await wait_until(ready)
    finally:
        checking.cancel()
        await asyncio.gather(checking, return_exceptions=True)
