"""What the lease broker is told by workflows, and what it asks for when it knows nothing."""

from temporalio import activity

from activities.errors import provider_errors_as_failures
from cluster.proxies import ProxyStore
from leasing.client import BrokerClient, BrokerFullError
from leasing.priming import prime
from model import messages
from model.lease_transitions import operation_of

_TELL_SECONDS = 8.0


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
        proxies = [proxy async for proxy in self._store.list_all()]
        activity.heartbeat(0)
        async with provider_errors_as_failures():
            return await prime(self._broker, proxies, activity.heartbeat)
