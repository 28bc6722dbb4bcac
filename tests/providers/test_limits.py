"""What holds around every provider: limits, deadlines, errors, metrics."""

import asyncio
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from model import errors
from model.errors import PermanentError, QuotaExceededError, TransientError
from providers.contract import Provider
from providers.limits import Deadlines, LimitedProvider
from providers.metrics import MeteredProvider, ProviderMetrics
from tests.providers.polling import until
from tests.providers.scripted import ScriptedProvider, entry, instance, request

SHORT = Deadlines(create=0.05, other=0.05, close=0.05)


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


async def test_max_concurrent_creates_bounds_creates_and_nothing_else() -> None:
    backend = ScriptedProvider()
    provider = limited(backend, "maxConcurrentCreates: 2")
    backend.gate.clear()
    creates = [asyncio.create_task(provider.create(request(f"a{n}"))) for n in range(6)]
    await until_running(backend, 2)
    find = asyncio.create_task(provider.find("a0"))
    await until_running(backend, 3)
    backend.gate.set()
    await asyncio.gather(find, *creates)
    assert backend.most_running == 3
    assert len(backend.instances) == 6


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


def test_cloud_init_is_not_in_the_text_of_a_request() -> None:
    assert "S3cr3t-xyz" not in repr(request("a", cloud_init="S3cr3t-xyz"))
