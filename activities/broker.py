"""What the lease broker is told and asked by workflows, and what it asks for when it knows nothing."""

import asyncio
import logging
import time
from datetime import timedelta

from temporalio import activity
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory

from activities.errors import provider_errors_as_failures
from activities.heartbeats import heartbeating
from cluster.proxies import ProxyStore
from leasing.client import BrokerClient, BrokerFullError
from leasing.priming import prime
from model import messages, names
from model.errors import UnavailableError
from model.lease_broker import LEASES_NOT_KNOWN
from model.lease_transitions import operation_of

logger = logging.getLogger(__name__)

_TELL_SECONDS = 8.0
_DRAIN_QUICKLY_SECONDS = 8.0
_DRAIN_PAUSE_SECONDS = 0.2
_LONGEST_DRAIN_PAUSE_SECONDS = 1.0
_DRAIN_LATER_SECONDS = 5.0


class BrokerActivities:
    """Activities of the control queue that speak with the broker."""

    def __init__(self, broker: BrokerClient, store: ProxyStore) -> None:
        self._broker = broker
        self._store = store

    @activity.defn
    async def tell_broker(self, tell: messages.BrokerTell) -> messages.BrokerAnswer:
        """Tell one transition; retried by Temporal until the broker answers."""
        async with provider_errors_as_failures():
            try:
                newer = await self._broker.tell(operation_of(tell), _TELL_SECONDS)
            except BrokerFullError as error:
                return messages.BrokerAnswer(accepted=False, refusal=str(error))
        if newer is not None:
            return messages.BrokerAnswer(accepted=False, order=newer)
        return messages.BrokerAnswer(accepted=True)

    @activity.defn
    async def prime_broker(self) -> int:
        """Tell a broker that knows nothing what the status of every Proxy says; return how many it did not take on.

        The list is read from the API server, complete, or nothing is told to be complete.
        """
        proxies = [proxy async for proxy in self._store.list_readable()]
        activity.heartbeat(0)
        async with provider_errors_as_failures():
            return await prime(self._broker, proxies, activity.heartbeat)

    @activity.defn
    async def drain_proxy(self, drain: messages.DrainProxy) -> int:
        """Return once no lease runs on the instance, or at the drain's end, with the number of leases left.

        The transition that starts the drain must have been told: while the proxy is handed out its leases never end.
        Short drains are seen through by the first attempt; later attempts ask once and are retried, without history, so
        that a long drain holds no slot. A broker that was terminated has lost the leases: once it is primed, none is
        left.

        Returns:
            0 when the instance is drained; ``lease_broker.LEASES_NOT_KNOWN`` when the broker did not answer at the end.
        """
        seconds = _DRAIN_QUICKLY_SECONDS if activity.info().attempt == 1 else 0.0
        async with heartbeating():
            left = await self._drained_within(drain, seconds)
        if left == 0 or _seconds_left(drain) <= 0:
            return left
        raise _still_draining(drain, left)

    async def _drained_within(self, drain: messages.DrainProxy, seconds: float) -> int:
        """Ask at once, then with growing pauses for so long; return the last answer."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        pause = _DRAIN_PAUSE_SECONDS
        while True:
            left = await self._leases_left(drain)
            rest = min(pause, _seconds_left(drain))
            if left == 0 or rest <= 0 or loop.time() + rest > deadline:
                return left
            await asyncio.sleep(rest)
            pause = min(pause * 1.3, _LONGEST_DRAIN_PAUSE_SECONDS)

    async def _leases_left(self, drain: messages.DrainProxy) -> int:
        reference = drain.reference
        proxy_id = names.proxy_id(reference.namespace, reference.name)
        try:
            left = await self._broker.leases_on(proxy_id, reference.uid, drain.instance)
        except UnavailableError as error:
            logger.info("the leases of %s are counted later: %s", proxy_id, error)
            return LEASES_NOT_KNOWN
        return LEASES_NOT_KNOWN if left is None else left


def _seconds_left(drain: messages.DrainProxy) -> float:
    return drain.ends_at / 1000 - time.time()


def _still_draining(drain: messages.DrainProxy, left: int) -> ApplicationError:
    count = "an unknown number of leases" if left == LEASES_NOT_KNOWN else f"{left} leases"
    return ApplicationError(
        f"{count} left on {drain.reference.namespace}/{drain.reference.name}",
        type="StillDraining",
        next_retry_delay=timedelta(seconds=max(0.1, min(_DRAIN_LATER_SECONDS, _seconds_left(drain)))),
        category=ApplicationErrorCategory.BENIGN,
    )
