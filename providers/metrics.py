"""Counts every provider call by its result."""

from collections.abc import Awaitable
from typing import TypeVar

from prometheus_client import CollectorRegistry, Counter

from model.errors import PROVIDER_ERRORS, ProviderError
from model.instance import Instance
from providers.contract import CreateRequest, Provider

T = TypeVar("T")

_OTHER = "Transient"


class ProviderMetrics:
    """The counter of provider calls; ``result`` is "ok" or the word of the error class."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._requests = Counter(
            "proxy_operator_provider_requests_total",
            "Provider calls by operation and result.",
            ["provider", "op", "result"],
            registry=registry,
        )

    def count(self, provider: str, operation: str, result: str) -> None:
        """Count one call."""
        self._requests.labels(provider, operation, result).inc()


class MeteredProvider(Provider):
    """Counts the calls of another provider."""

    def __init__(self, name: str, provider: Provider, metrics: ProviderMetrics) -> None:
        self._name = name
        self._provider = provider
        self._metrics = metrics

    async def create(self, request: CreateRequest) -> Instance:
        """Count and pass on."""
        return await self._count("create", self._provider.create(request))

    async def find(self, name: str) -> Instance | None:
        """Count and pass on."""
        return await self._count("find", self._provider.find(name))

    async def get(self, provider_id: str) -> Instance:
        """Count and pass on."""
        return await self._count("get", self._provider.get(provider_id))

    async def delete(self, provider_id: str, incarnation: str) -> None:
        """Count and pass on."""
        await self._count("delete", self._provider.delete(provider_id, incarnation))

    async def list_managed(self) -> list[Instance]:
        """Count and pass on."""
        return await self._count("list", self._provider.list_managed())

    async def close(self) -> None:
        """Pass on."""
        await self._provider.close()

    async def _count(self, operation: str, call: Awaitable[T]) -> T:
        result = _OTHER
        try:
            answer = await call
            result = "ok"
            return answer
        except ProviderError as error:
            result = result_word(error)
            raise
        finally:
            self._metrics.count(self._name, operation, result)


def result_word(error: ProviderError) -> str:
    """Return the ``result`` label of an error: its class name without the ending; a bounded set."""
    for name, kind in PROVIDER_ERRORS.items():
        if type(error) is kind:
            return name.removesuffix("Error")
    return _OTHER
