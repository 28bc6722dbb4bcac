"""Checks providers, and publishes what came of it as ProviderHealth objects."""

import asyncio
from datetime import timedelta

from temporalio import activity
from temporalio.client import Client
from temporalio.exceptions import ApplicationError

from activities.errors import provider_errors_as_failures
from activities.heartbeats import heartbeating
from activities.poking import poke_proxy
from cluster.provider_health import ProviderHealthStore
from cluster.proxies import ProxyStore
from model.durations import format_duration
from model.errors import PokeRefusedError, TransientError, clean_message
from model.messages import Poke
from model.provider_check_messages import CheckAnswer, CheckOutcome, CheckProvider, Published
from model.provider_health import API_ERROR, TIMEOUT
from model.provider_health_status import is_ready, ready_status, status_of
from model.provider_targets import answer_of
from model.reasons import Provisioned
from model.status import CONDITION_PROVISIONED
from providers.registry import ProviderRegistry

_MOST_POKES = 500


class CheckActivities:
    """The activity of a provider's queue that asks its backend whether it is usable."""

    def __init__(self, registry: ProviderRegistry) -> None:
        self._registry = registry

    @activity.defn
    async def check_provider(self, check: CheckProvider) -> CheckAnswer:
        """Return the verdict about every target; a backend that hangs ends at the timeout, which is a failure."""
        async with heartbeating(), provider_errors_as_failures(retry=False):
            provider = await self._registry.get(check.provider)
            checker = provider.checker
            if checker is None:
                return CheckAnswer(implemented=False)
            try:
                async with asyncio.timeout(check.timeout_seconds):
                    # Before it becomes part of a history.
                    return answer_of(await checker.check())
            except TimeoutError:
                limit = format_duration(timedelta(seconds=check.timeout_seconds))
                text = f"no verdict within {limit}"
                raise ApplicationError(text, type=TIMEOUT, non_retryable=True) from None
            except TransientError as error:
                raise ApplicationError(clean_message(str(error)), type=API_ERROR, non_retryable=True) from None


class HealthPublishing:
    """Activities of the control queue that write ProviderHealth objects."""

    def __init__(
        self, registry: ProviderRegistry, health: ProviderHealthStore, proxies: ProxyStore, client: Client
    ) -> None:
        self._registry = registry
        self._health = health
        self._proxies = proxies
        self._client = client

    @activity.defn
    async def publish_provider_health(self, outcome: CheckOutcome) -> Published:
        """Write the outcome; a provider that has just turned good has the Proxies it refused look again.

        They are poked before the status is written: an attempt that dies in between is repeated as a whole.
        """
        async with heartbeating(), provider_errors_as_failures():
            entry = await self._registry.entry(outcome.provider)
            if entry is None:
                raise ApplicationError(
                    "the provider is not configured any more", type="Unconfigured", non_retryable=True
                )
            previous = await self._health.status(outcome.provider)
            status = status_of(entry.type, outcome, previous)
            poked = await self._poke_refused(outcome.provider) if is_ready(status) and not is_ready(previous) else 0
            await self._health.write(outcome.provider, status)
            return Published(ready=ready_status(status), targets_ready=status["targetsReady"], poked=poked)

    @activity.defn
    async def remove_unconfigured_health(self) -> list[str]:
        """Remove the objects of providers that the config lacks; return their names."""
        async with heartbeating(), provider_errors_as_failures():
            configured = {entry.name for entry in await self._registry.entries()}
            return await self._health.remove_others(configured)

    async def _poke_refused(self, provider: str) -> int:
        """Have every Proxy that waits because the provider's backend refused us ask it again."""
        refused = [
            proxy
            async for proxy in self._proxies.list_readable()
            if proxy.spec.provider == provider
            and (condition := proxy.status.condition(CONDITION_PROVISIONED)) is not None
            and condition.reason == Provisioned.ACCESS_DENIED
        ]
        for proxy in refused[:_MOST_POKES]:
            poke = Poke(namespace=proxy.namespace, name=proxy.name, uid=proxy.uid, look=True)
            try:
                await poke_proxy(self._client, poke)
            except PokeRefusedError as error:
                activity.logger.error("%s", error)
        return len(refused[:_MOST_POKES])
