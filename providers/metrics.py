"""Counts every provider call by its result."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge

from model.errors import PROVIDER_ERRORS, NoTurnError, ProviderError
from model.instance import Instance
from model.provider_health import TargetHealth
from providers.contract import Checker, CreateRequest, MarkEditor, Provider

T = TypeVar("T")

_OTHER = "Transient"


class ProviderMetrics:
    """The counter of provider calls, ``result`` being "ok" or the word of the error class, and the config's state."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._requests = Counter(
            "proxy_operator_provider_requests_total",
            "Provider calls by operation and result.",
            ["provider", "op", "result"],
            registry=registry,
        )
        self._config_error = Gauge(
            "proxy_operator_providers_config_error",
            "1 while the last edit of the providers file is not taken and an older one is in force.",
            registry=registry,
        )

    def follow_config(self, error: Callable[[], str]) -> None:
        """Show at every scrape whether there is an error; ``error`` returns its text or ""."""
        self._config_error.set_function(lambda: float(bool(error())))

    def count(self, provider: str, operation: str, result: str) -> None:
        """Count one call."""
        self._requests.labels(provider, operation, result).inc()


class MeteredProvider(Provider):
    """Counts the calls of another provider."""

    def __init__(self, name: str, provider: Provider, metrics: ProviderMetrics) -> None:
        self._name = name
        self._provider = provider
        self._metrics = metrics

    @property
    def checker(self) -> Checker | None:
        """What checks the backend, counted."""
        checker = self._provider.checker
        return None if checker is None else _MeteredChecker(self, checker)

    @property
    def mark_editor(self) -> MarkEditor | None:
        """What changes marks, counted."""
        editor = self._provider.mark_editor
        return None if editor is None else _MeteredMarkEditor(self, editor)

    async def create(self, request: CreateRequest) -> Instance:
        """Count and pass on."""
        return await self.count("create", self._provider.create(request))

    async def find(self, name: str) -> Instance | None:
        """Count and pass on."""
        return await self.count("find", self._provider.find(name))

    async def get(self, provider_id: str) -> Instance:
        """Count and pass on."""
        return await self.count("get", self._provider.get(provider_id))

    async def delete(self, provider_id: str, incarnation: str) -> None:
        """Count and pass on."""
        await self.count("delete", self._provider.delete(provider_id, incarnation))

    async def list_managed(self) -> list[Instance]:
        """Count and pass on."""
        return await self.count("list", self._provider.list_managed())

    async def close(self) -> None:
        """Pass on."""
        await self._provider.close()

    async def count(self, operation: str, call: Awaitable[T]) -> T:
        """Count a call under one of a fixed set of operations; one that got no turn was none."""
        result = _OTHER
        try:
            answer = await call
            result = "ok"
            return answer
        except NoTurnError:
            result = ""
            raise
        except ProviderError as error:
            result = result_word(error)
            raise
        finally:
            if result:
                self._metrics.count(self._name, operation, result)


class _MeteredChecker(Checker):
    def __init__(self, metered: MeteredProvider, checker: Checker) -> None:
        self._metered = metered
        self._checker = checker

    async def check(self) -> list[TargetHealth]:
        return await self._metered.count("check", self._checker.check())


class _MeteredMarkEditor(MarkEditor):
    def __init__(self, metered: MeteredProvider, editor: MarkEditor) -> None:
        self._metered = metered
        self._editor = editor

    async def write_marks(self, provider_id: str, incarnation: str, installation: str, spec_hash: str) -> None:
        call = self._editor.write_marks(provider_id, incarnation, installation, spec_hash)
        await self._metered.count("write_marks", call)

    async def remove_marks(self, provider_id: str, incarnation: str) -> None:
        await self._metered.count("remove_marks", self._editor.remove_marks(provider_id, incarnation))


def result_word(error: ProviderError) -> str:
    """Return the ``result`` label of an error: its class name without the ending; a bounded set."""
    for name, kind in PROVIDER_ERRORS.items():
        if type(error) is kind:
            return name.removesuffix("Error")
    return _OTHER
