"""Proxies that only the lease broker knows, told directly: a large table costs no processes."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from bench.results import BenchError
from leasing.client import BrokerClient
from model.lease_operations import Gone, Order, ProxyView, Transition

_AT_ONCE = 500
_TIMEOUT = 30.0


@asynccontextmanager
async def filled(broker: BrokerClient, count: int, attributes: dict[str, str], *, free: bool) -> AsyncIterator[None]:
    """Have the broker know so many more proxies.

    Args:
        broker: The product's client.
        count: How many.
        attributes: Of each.
        free: Whether they can be leased.

    Raises:
        BenchError: The broker has newer news of one, or did not take it on.
    """
    begun = time.time_ns() // 1_000_000
    keys = [(f"bench/{begun}-{number:05}", f"uid-{begun}-{number:05}") for number in range(count)]
    told = [
        Transition(name, uid, (begun, 1), _view(number, attributes, free)) for number, (name, uid) in enumerate(keys)
    ]
    await _tell(broker, told)
    try:
        yield
    finally:
        order: Order = (begun, 2)
        await _tell(broker, [Gone(name, uid, order) for name, uid in keys])


def _view(number: int, attributes: dict[str, str], free: bool) -> ProxyView:
    address = f"10.{number // 62500}.{number // 250 % 250}.{number % 250 + 1}"
    return ProxyView(address, 3128, attributes, "Ready", free, 20 + number % 100, 64, free, f"start-{number:05}")


async def _tell(broker: BrokerClient, operations: list[Transition] | list[Gone]) -> None:
    for start in range(0, len(operations), _AT_ONCE):
        some = operations[start : start + _AT_ONCE]
        newer = await asyncio.gather(*(broker.tell(one, _TIMEOUT) for one in some))
        if any(order is not None for order in newer):
            raise BenchError("the lease broker has newer news of a proxy that only the benchmark knows")
