"""What the tests of the conformance suite do over and over: bring up, remove, break, try again."""

import asyncio
import time
import traceback
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from model.errors import NotFoundError, ProviderError, TransientError
from model.instance import Instance, InstanceState
from providers.conformance_harness import CLOUD_INIT_SENTINEL, FaultPoint, FaultWay, ProviderHarness, perform
from providers.contract import CreateRequest, Provider

T = TypeVar("T")
RecordOutcome = Callable[[str, FaultPoint, str], None]

_PAUSE_SECONDS = 0.05
_MAY_PASS = {"ok", "TransientError", "QuotaExceededError", "AccessDeniedError", "no answer", "died"}
"""How a call may end that met a fault which passes; anything else would make the caller act on an untruth."""


@dataclass(frozen=True)
class Outcome:
    """How a call ended.

    Attributes:
        word: "ok", the name of the error class, "no answer" or "died".
        value: What was returned.
        text: The error with everything chained to it, as a log would show it.
    """

    word: str
    value: Any = None
    text: str = field(default="", repr=False)


async def outcome_of(call: Awaitable[T], seconds: float) -> Outcome:
    """Return how a call ended; an error outside the contract fails the test."""
    try:
        async with asyncio.timeout(seconds) as deadline:
            return Outcome("ok", await call)
    except ProviderError as error:
        return Outcome(type(error).__name__, error, "".join(traceback.format_exception(error)))
    except TimeoutError:
        if not deadline.expired():
            raise
        return Outcome("no answer")


async def suffer(harness: ProviderHarness, point: FaultPoint, subject: CreateRequest | Instance) -> Outcome:
    """Run an operation into a fault and return how it ended; the fault is over then."""
    if point.way is FaultWay.PROCESS_DIES:
        await harness.die_at(point, subject)
        return Outcome("died")
    async with harness.broken(point) as fault:
        call = perform(harness.provider(), point.operation, subject)
        outcome = await outcome_of(call, harness.deadline_seconds)
        assert fault.happened, f"{point} was never reached"
    return outcome


async def retried(harness: ProviderHarness, call: Callable[[], Awaitable[T]]) -> T:
    """Call until the answer is something else than "try again", as a workflow does."""
    deadline = time.monotonic() + harness.patience_seconds
    while True:
        try:
            return await call()
        except TransientError:
            if time.monotonic() > deadline:
                raise
        await asyncio.sleep(_PAUSE_SECONDS)


async def running(harness: ProviderHarness, provider: Provider, instance: Instance) -> Instance:
    """Return the instance once it runs; on the way it is never stopped and never runs without an address."""
    await harness.make_run(instance)
    deadline = time.monotonic() + harness.patience_seconds
    while True:
        seen = await retried(harness, lambda: provider.get(instance.provider_id))
        assert seen.incarnation == instance.incarnation
        assert seen.state is not InstanceState.STOPPED, f"it stopped on its way up: {seen.message}"
        if seen.state is InstanceState.RUNNING:
            assert seen.ip, "it runs and has no address"
            return seen
        assert time.monotonic() < deadline, f"it does not come up: {seen}"
        await asyncio.sleep(_PAUSE_SECONDS)


async def created(harness: ProviderHarness, provider: Provider, uid: str = "uid-a", **changes: object) -> Instance:
    """Return a new instance that runs."""
    request = harness.request(uid, **changes)
    return await running(harness, provider, await retried(harness, lambda: provider.create(request)))


async def removed(harness: ProviderHarness, provider: Provider, instance: Instance) -> None:
    """Delete until the provider proves it gone; nothing of it may be left."""
    deadline = time.monotonic() + harness.patience_seconds
    while True:
        await retried(harness, lambda: provider.delete(instance.provider_id, instance.incarnation))
        try:
            left = await retried(harness, lambda: provider.get(instance.provider_id))
        except NotFoundError:
            break
        assert left.incarnation == instance.incarnation
        assert time.monotonic() < deadline, f"it does not go: {left}"
        await asyncio.sleep(0.05)
    assert await harness.instances_of(instance.name) == 0
    assert list(await harness.leftovers(instance.name)) == []


async def suffered(
    harness: ProviderHarness, point: FaultPoint, subject: CreateRequest | Instance, record: RecordOutcome
) -> Outcome:
    """Run an operation into a fault, note how it ended, and check that its caller is told no untruth."""
    outcome = await suffer(harness, point, subject)
    record(harness.name, point, outcome.word)
    assert outcome.word in _MAY_PASS, f"{point} ended with {outcome.word}:\n{outcome.text}"
    for secret in (CLOUD_INIT_SENTINEL, *harness.secrets):
        assert secret not in outcome.text + repr(outcome.value)
    return outcome
