"""Compares a provider's instances with what the Proxies say, and pokes what differs."""

from temporalio import activity
from temporalio.client import Client

from activities.errors import provider_errors_as_failures
from activities.poking import poke_proxy
from cluster.proxies import ProxyStore
from model import failures, messages
from model.instance import Instance, InstanceState
from model.proxy import Proxy
from model.reasons import Provisioned
from model.status import CONDITION_PROVISIONED
from providers.registry import ProviderRegistry

MOST_POKES = 500


class DriftActivities:
    """Activities of the drift check."""

    def __init__(self, registry: ProviderRegistry, store: ProxyStore, client: Client, installation: str) -> None:
        self._registry = registry
        self._store = store
        self._client = client
        self._installation = installation

    @activity.defn
    async def list_providers(self) -> list[messages.ProviderQueue]:
        """Return every configured provider with the queue that serves it."""
        entries = await self._registry.entries()
        return [messages.ProviderQueue(name=entry.name, task_queue=entry.task_queue) for entry in entries]

    @activity.defn
    async def find_drift(self, query: messages.DriftQuery) -> messages.DriftReport:
        """List the instances once and return the Proxies that say something else. A failed list proves nothing."""
        entry = await self._registry.entry(query.provider)
        entry_hash = entry.entry_hash if entry is not None else ""
        async with provider_errors_as_failures(entry_hash):
            provider = await self._registry.get(query.provider)
            proxies = [proxy async for proxy in self._store.list_readable() if proxy.spec.provider == query.provider]
            instances = {
                instance.uid: instance
                for instance in await provider.list_managed()
                if instance.installation in ("", self._installation)
            }
        differing = [proxy for proxy in proxies if differs(proxy, instances.get(proxy.uid), entry_hash)]
        return messages.DriftReport(
            pokes=[_poke(proxy, entry_hash) for proxy in differing[:MOST_POKES]],
            proxies=len(proxies),
            instances=len(instances),
        )

    @activity.defn
    async def poke_proxies(self, pokes: list[messages.Poke]) -> None:
        """Poke each Proxy's workflow."""
        for poke in pokes:
            await poke_proxy(self._client, poke)


def differs(proxy: Proxy, instance: Instance | None, entry_hash: str) -> bool:
    """Whether a Proxy's workflow should ask the provider about its instance.

    Args:
        proxy: What the object says.
        instance: What the provider has of it.
        entry_hash: The provider's config entry now; a failure latched on another one may be over.
    """
    if proxy.deleting or proxy.spec.paused:
        return False
    status = proxy.status
    if status.failed_cause:
        return failures.entry_hash_of(status.failed_cause) != entry_hash
    provisioned = status.condition(CONDITION_PROVISIONED)
    if provisioned is not None and provisioned.reason == Provisioned.PROVIDER_NOT_CONFIGURED:
        return True
    if not status.ip:
        # On its way, or being replaced: its workflow is at work on it and asks by itself.
        return False
    if instance is None or instance.state is InstanceState.STOPPED:
        return True
    return (instance.provider_id, instance.incarnation, instance.ip or status.ip) != (
        status.provider_id,
        status.incarnation,
        status.ip,
    )


def _poke(proxy: Proxy, entry_hash: str) -> messages.Poke:
    latched = bool(proxy.status.failed_cause)
    return messages.Poke(
        namespace=proxy.namespace, name=proxy.name, uid=proxy.uid, look=not latched, entry_hash=entry_hash
    )
