"""Tells a broker that knows nothing what the status of every Proxy says."""

import asyncio
import logging
from collections.abc import Callable, Iterable

from leasing.client import BrokerClient, BrokerFullError
from model.lease_transitions import priming_transition
from model.proxy import Proxy

logger = logging.getLogger(__name__)

_CHUNK = 500
_TIMEOUT = 20.0


async def prime(broker: BrokerClient, proxies: Iterable[Proxy], progress: Callable[[int], None]) -> int:
    """Tell every Proxy, then that these are all; returns how many the broker did not take on.

    Args:
        broker: The broker's client.
        proxies: A complete list from the API server.
        progress: Called with the number told so far, for a heartbeat.

    Raises:
        UnavailableError: The broker does not answer. Everything may be told again.
    """
    waiting = list(proxies)
    refused = 0
    for start in range(0, len(waiting), _CHUNK):
        chunk = waiting[start : start + _CHUNK]
        refused += sum(await asyncio.gather(*(_tell(broker, proxy) for proxy in chunk)))
        progress(start + len(chunk))
    await broker.tell_primed(_TIMEOUT)
    return refused


async def _tell(broker: BrokerClient, proxy: Proxy) -> bool:
    try:
        await broker.tell(priming_transition(proxy), _TIMEOUT)
    except BrokerFullError:
        logger.warning("the lease broker's budget is used up, it does not take on %s", proxy.id)
        return True
    return False
