"""What holds around every provider: limits, deadlines, errors, metrics."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from model import errors
from model.errors import NotFoundError, NoTurnError, PermanentError, QuotaExceededError, TransientError
from model.provider_health import REACHABLE, TargetHealth
from providers.contract import Checker, MarkEditor, Provider
from providers.limits import Deadlines, LimitedProvider
from providers.metrics import MeteredProvider, ProviderMetrics
from tests.providers.polling import until
from tests.providers.scripted import ScriptedProvider, entry, instance, request

SHORT = Deadlines(create=0.05, other=0.05, check=0.05, close=0.05)


def limited(provider: Provider, extra: str = "", deadlines: Deadlines | None = None) -> LimitedProvider:
    return LimitedProvider(provider, entry(extra), "ours", deadlines)


async def until_running(provider: ScriptedProvider, number: int) -> None:
    await until(lambda: provider.running >= number)


async def test_max_instances_refuses_one_more_with_the_counts() -> None:
    backend = ScriptedProvider()
    provider = limited(backend, "maxInstances: 2")
    await provider.create(request("a"))
    await provider.create(request("b"))
    with pytest.raises(QuotaExceededError) as caught:
        await provider.create(request("c"))
    assert str(caught.value) == (
        "provider box1 has 2 of at most 2 instances (maxInstances); delete some or raise the limit"
    )
    assert caught.value.entry_hash == entry("maxInstances: 2").entry_hash
    assert set(backend.instances) == {"a", "b"}


async def test_max_instances_does_not_count_a_create_that_adopts() -> None:
    backend = ScriptedProvider()
    provider = limited(backend, "maxInstances: 1")
    first = await provider.create(request("a"))
    assert await provider.create(request("a")) == first


async def test_max_instances_counts_unmarked_instances_and_not_those_of_others() -> None:
    backend = ScriptedProvider()
    backend.instances["theirs"] = instance("theirs", installation="theirs")
    provider = limited(backend, "maxInstances: 2")
    await provider.create(request("a"))
    backend.instances["unmarked"] = instance("unmarked", installation="")
    with pytest.raises(QuotaExceededError):
        await provider.create(request("b"))


async def test_max_instances_holds_for_creates_at_the_same_time() -> None:
    backend = ScriptedProvider()
    provider = limited(backend, "maxInstances: 3")
    backend.gate.clear()
    creates = [asyncio.create_task(provider.create(request(f"a{n}"))) for n in range(10)]
    await until_running(backend, 3)
    backend.gate.set()
    results = await asyncio.gather(*creates, return_exceptions=True)
    assert sum(isinstance(result, QuotaExceededError) for result in results) == 7
    assert len(backend.instances) == 3


async def test_max_instances_creates_nothing_when_the_list_fails() -> None:
    backend = ScriptedProvider()
    backend.failure = TransientError("no list")
    with pytest.raises(TransientError):
        await limited(backend, "maxInstances: 3").create(request("a"))
    assert backend.instances == {}


async def test_a_create_beyond_max_concurrent_creates_is_refused_at_once_and_nothing_else_is() -> None:
    backend = ScriptedProvider()
    provider = limited(backend, "maxConcurrentCreates: 2")
    backend.gate.clear()
    creates = [asyncio.create_task(provider.create(request(f"a{n}"))) for n in range(2)]
    await until_running(backend, 2)
    with pytest.raises(NoTurnError, match="2 creates at a time") as refused:
        await provider.create(request("a2"))
    assert refused.value.wait_seconds == 1.0
    find = asyncio.create_task(provider.find("a0"))
    await until_running(backend, 3)
    backend.gate.set()
    await asyncio.gather(find, *creates)
    await provider.create(request("a2"))
    assert len(backend.instances) == 3


async def test_a_create_that_failed_or_was_cancelled_gives_its_turn_back() -> None:
    backend = ScriptedProvider()
    provider = limited(backend, "maxConcurrentCreates: 1")
    backend.failure = PermanentError("no")
    with pytest.raises(PermanentError):
        await provider.create(request("a"))
    backend.failure = None
    backend.gate.clear()
    call = asyncio.create_task(provider.create(request("b")))
    await until_running(backend, 1)
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)
    backend.gate.set()
    assert (await provider.create(request("c"))).name == "c"


@pytest.mark.parametrize(
    ("operation", "arguments"),
    [("create", (request("a"),)), ("find", ("a",)), ("get", ("a",)), ("delete", ("a", ""))],
)
async def test_every_call_has_a_deadline_that_names_operation_and_seconds(
    operation: str, arguments: tuple[Any, ...]
) -> None:
    backend = ScriptedProvider()
    backend.gate.clear()
    with pytest.raises(TransientError) as caught:
        await getattr(limited(backend, deadlines=SHORT), operation)(*arguments)
    assert str(caught.value) == f"{operation} at provider box1 did not end within 0.05 s"
    assert backend.running == 0


async def test_a_timeout_of_the_backend_itself_is_not_taken_for_the_deadline() -> None:
    backend = ScriptedProvider()
    backend.failure = TimeoutError("socket timed out")
    with pytest.raises(TransientError, match="get at provider box1 failed: TimeoutError: socket timed out"):
        await limited(backend).get("a")


async def test_an_error_outside_the_contract_becomes_transient_and_masked() -> None:
    backend = ScriptedProvider()
    backend.failure = RuntimeError("https://user:S3cr3t-xyz@backend said password=S3cr3t-xyz no")
    with pytest.raises(TransientError) as caught:
        await limited(backend).list_managed()
    assert str(caught.value) == ("list at provider box1 failed: RuntimeError: https://***@backend said password=*** no")
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


async def test_contract_errors_pass_with_the_hash_of_the_entry() -> None:
    backend = ScriptedProvider()
    backend.failure = PermanentError("spec.placement.zone: no")
    with pytest.raises(PermanentError) as caught:
        await limited(backend).create(request("a"))
    assert caught.value is backend.failure
    assert caught.value.entry_hash == entry().entry_hash


async def test_a_cancelled_call_is_cancelled_in_the_backend() -> None:
    backend = ScriptedProvider()
    backend.gate.clear()
    call = asyncio.create_task(limited(backend).get("a"))
    await until_running(backend, 1)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert backend.running == 0


async def test_close_waits_for_calls_in_flight_and_refuses_later_ones() -> None:
    backend = ScriptedProvider()
    backend.instances["a"] = instance("a")
    provider = limited(backend)
    backend.gate.clear()
    call = asyncio.create_task(provider.get("a"))
    await until_running(backend, 1)
    closing = asyncio.create_task(provider.close())
    await asyncio.sleep(0)
    with pytest.raises(TransientError, match="has changed; call again"):
        await provider.get("a")
    assert not backend.closed
    backend.gate.set()
    assert (await call).name == "a"
    await closing
    assert backend.closed


def count(registry: CollectorRegistry, provider: str, operation: str, result: str) -> float:
    labels = {"provider": provider, "op": operation, "result": result}
    return registry.get_sample_value("proxy_operator_provider_requests_total", labels) or 0.0


@pytest.mark.parametrize(
    ("failure", "result"),
    [
        (None, "ok"),
        (errors.NotFoundError("x"), "NotFound"),
        (errors.QuotaExceededError("x"), "QuotaExceeded"),
        (errors.TransientError("x"), "Transient"),
        (errors.AccessDeniedError("x"), "AccessDenied"),
        (errors.PermanentError("x"), "Permanent"),
        (errors.NameTakenError("x"), "NameTaken"),
        (RuntimeError("x"), "Transient"),
    ],
)
async def test_every_call_is_counted_by_its_result(failure: Exception | None, result: str) -> None:
    backend = ScriptedProvider()
    backend.instances["a"] = instance("a")
    backend.failure = failure
    name = f"metered-{result}-{type(failure).__name__}"
    registry = CollectorRegistry()
    provider = MeteredProvider(name, LimitedProvider(backend, entry(), "ours"), ProviderMetrics(registry))
    calls = {
        "create": provider.create(request("a")),
        "find": provider.find("a"),
        "get": provider.get("a"),
        "delete": provider.delete("a", ""),
        "list": provider.list_managed(),
    }
    for operation, call in calls.items():
        if failure is None:
            await call
        else:
            with pytest.raises(errors.ProviderError):
                await call
        assert count(registry, name, operation, result) == 1


class Extended(ScriptedProvider, Checker, MarkEditor):
    """Can do everything; answers when the gate is open."""

    async def check(self) -> list[TargetHealth]:
        await self._answer()
        return [TargetHealth(name="backend", ready=True, reason=REACHABLE)]

    async def write_marks(self, provider_id: str, incarnation: str, installation: str, spec_hash: str) -> None:
        await self._answer()

    async def remove_marks(self, provider_id: str, incarnation: str) -> None:
        await self._answer()


async def extras(provider: Provider) -> dict[str, Callable[[], Awaitable[object]]]:
    checker, editor = provider.checker, provider.mark_editor
    assert checker is not None
    assert editor is not None
    return {
        "check": checker.check,
        "write_marks": lambda: editor.write_marks("a", "1", "ours", "v1-a"),
        "remove_marks": lambda: editor.remove_marks("a", "1"),
    }


async def test_what_a_provider_cannot_do_its_wrappers_cannot_do_either() -> None:
    metrics = ProviderMetrics(CollectorRegistry())
    provider = MeteredProvider("box1", limited(ScriptedProvider()), metrics)
    assert provider.checker is None
    assert provider.mark_editor is None


async def test_checks_and_marks_have_deadlines_and_are_counted() -> None:
    backend, registry = Extended(), CollectorRegistry()
    provider = MeteredProvider("box1", limited(backend, deadlines=SHORT), ProviderMetrics(registry))
    for operation, call in (await extras(provider)).items():
        await call()
        backend.gate.clear()
        with pytest.raises(TransientError, match=f"{operation} at provider box1 did not end within"):
            await call()
        backend.gate.set()
        backend.failure = NotFoundError("x")
        with pytest.raises(NotFoundError):
            await call()
        backend.failure = None
        results = {result: count(registry, "box1", operation, result) for result in ("ok", "Transient", "NotFound")}
        assert results == {"ok": 1, "Transient": 1, "NotFound": 1}


async def test_a_create_without_a_turn_is_not_counted_as_a_call() -> None:
    backend, registry = ScriptedProvider(), CollectorRegistry()
    provider = MeteredProvider("box1", limited(backend, "maxConcurrentCreates: 1"), ProviderMetrics(registry))
    backend.gate.clear()
    call = asyncio.create_task(provider.create(request("a")))
    await until_running(backend, 1)
    with pytest.raises(NoTurnError):
        await provider.create(request("b"))
    backend.gate.set()
    await call
    samples = [s for family in registry.collect() for s in family.samples if s.name.endswith("requests_total")]
    assert [(sample.labels["result"], sample.value) for sample in samples] == [("ok", 1.0)]


def test_cloud_init_is_not_in_the_text_of_a_request() -> None:
    assert "S3cr3t-xyz" not in repr(request("a", cloud_init="S3cr3t-xyz"))
