"""Short ways to a broker that knows some proxies."""

import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from temporalio.client import Client

from leasing.client import BrokerClient
from model import lease_ids
from model.lease_answers import Granted
from model.lease_broker import BrokerSettings
from model.lease_operations import Transition
from tests.model.lease_fixtures import view
from tests.workflows.lease_broker_worker import running_broker

INSTALLATION = "test"
COOLDOWN = 900_000


def new_id() -> str:
    return lease_ids.from_bytes(secrets.token_bytes(lease_ids.RAW_BYTES))


def transition(proxy_id: str, counter: int = 1, **changes: Any) -> Transition:
    return Transition(proxy_id, f"uid-{proxy_id}", (1000, counter), view(**changes))


async def prime(broker: BrokerClient, proxies: int, **changes: Any) -> None:
    """Tell so many proxies, ``ns/0000`` and on."""
    for place in range(proxies):
        assert await broker.tell(transition(f"ns/{place:04}", **changes), 20) is None
    await broker.tell_primed(20)


async def acquire(broker: BrokerClient, target: str = "", ttl: int = 60_000, **selector: str) -> tuple[str, Granted]:
    lease_id = new_id()
    answer = await broker.acquire(lease_id, selector, target, ttl, COOLDOWN)
    assert isinstance(answer, Granted), answer
    return lease_id, answer


@asynccontextmanager
async def broker_with(
    client: Client, proxies: int, *, run_length: int | None = None, **changes: Any
) -> AsyncIterator[BrokerClient]:
    """A broker with its worker and so many proxies."""
    broker = BrokerClient(client, INSTALLATION, settings=BrokerSettings(continue_as_new_after=run_length))
    async with running_broker(client):
        await prime(broker, proxies, **changes)
        yield broker
        await broker.close()
