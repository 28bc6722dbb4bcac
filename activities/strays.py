"""Finds what still speaks of Proxies that exist no more: entries of the lease broker and running workflows."""

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable

from temporalio import activity
from temporalio.client import Client

from activities.errors import provider_errors_as_failures
from activities.heartbeats import heartbeating
from activities.poking import poke_proxy
from cluster.live_proxies import LiveProxies
from leasing.client import BrokerClient
from model.collection import LiveProxy
from model.collection_messages import MOST_POKES, Reconciliation
from model.errors import PokeRefusedError, UnavailableError, clean_message
from model.messages import Poke
from providers.registry import ProviderRegistry

_CHUNK = 1000

Key = tuple[str, str]
"""Namespace and name of a Proxy."""


class StrayActivities:
    """The activity of the control queue that ends what outlived its Proxy.

    Args:
        registry: To tell which providers are configured.
        live: Every Proxy there is, or those of one namespace.
        broker: The lease broker.
        client: Where pokes go.
        running_workflows: Returns the Proxies that have a running workflow; may raise ``UnavailableError``.
    """

    def __init__(
        self,
        registry: ProviderRegistry,
        live: LiveProxies,
        broker: BrokerClient,
        client: Client,
        running_workflows: Callable[[], Awaitable[set[Key]]],
    ) -> None:
        self._registry = registry
        self._live = live
        self._broker = broker
        self._client = client
        self._running_workflows = running_workflows

    @activity.defn
    async def reconcile_strays(self) -> Reconciliation:
        """Poke the workflow of whatever has no Proxy any more; a workflow without an object tells the broker and ends.

        The Proxies are listed last: what belongs to one that was made meanwhile is never taken for a stray.
        """
        async with heartbeating(), provider_errors_as_failures():
            errors: list[str] = []
            known = await self._known_to_broker(errors)
            running = await self._running(errors)
            live = (await self._live.by_uid()).items()
            uids = {(proxy.namespace, proxy.name): uid for uid, proxy in live}
            stale = [Poke(namespace=key[0], name=key[1], uid=uid) for key, uid in known.items() if uids.get(key) != uid]
            strays = [Poke(namespace=key[0], name=key[1]) for key in sorted(running - uids.keys() - known.keys())]
            for poke in [*stale, *strays][:MOST_POKES]:
                await self._poke(poke, errors)
            return Reconciliation(
                stale_broker_entries=len(stale),
                stray_workflows=len(running - uids.keys()),
                unconfigured=await self._unconfigured(proxy for _, proxy in live),
                errors=errors[:10],
            )

    async def _known_to_broker(self, errors: list[str]) -> dict[Key, str]:
        """Return the uid of every Proxy that the broker lists."""
        known: dict[str, str] = {}
        try:
            ids = [listed.id for listed in (await self._broker.list_proxies()).proxies]
            for start in range(0, len(ids), _CHUNK):
                known |= await self._broker.uids(ids[start : start + _CHUNK])
        except UnavailableError as error:
            errors.append(clean_message(f"lease broker: {error}"))
            return {}
        keys = {_key(known_id): uid for known_id, uid in known.items()}
        return {key: uid for key, uid in keys.items() if self._in_scope(key)}

    async def _running(self, errors: list[str]) -> set[Key]:
        try:
            return {key for key in await self._running_workflows() if self._in_scope(key)}
        except UnavailableError as error:
            errors.append(clean_message(str(error)))
            return set()

    def _in_scope(self, key: Key) -> bool:
        return self._live.namespace in ("", key[0])

    async def _poke(self, poke: Poke, errors: list[str]) -> None:
        try:
            await poke_proxy(self._client, poke)
        except (UnavailableError, PokeRefusedError) as error:
            errors.append(clean_message(str(error)))

    async def _unconfigured(self, proxies: Iterable[LiveProxy]) -> dict[str, int]:
        configured = {entry.name for entry in await self._registry.entries()}
        counts = Counter(proxy.provider for proxy in proxies if proxy.provider and proxy.provider not in configured)
        return dict(counts.most_common(20))


def _key(known_id: str) -> Key:
    namespace, _, name = known_id.partition("/")
    return namespace, name
