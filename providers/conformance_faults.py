"""The rules of the conformance suite about a backend that breaks at any step, and callers that go away."""

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import ClassVar

import pytest

from model.instance import InstanceState
from providers.conformance_harness import OURS, FaultPoint, FaultWay, Operation, ProviderHarness, perform
from providers.conformance_report import PROPERTY
from providers.conformance_steps import RecordOutcome, created, outcome_of, removed, retried, running, suffered

_PROMPTLY_SECONDS = 2.0
_FAULT_ARGUMENTS = {
    "create_fault": (Operation.CREATE,),
    "delete_fault": (Operation.DELETE,),
    "reading_fault": (Operation.FIND, Operation.GET, Operation.LIST),
}


class FaultRules:
    """What holds whatever breaks."""

    fault_points: ClassVar[Sequence[FaultPoint]] = ()

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Run the tests of faults once for each fault point of their operations."""
        for argument, operations in _FAULT_ARGUMENTS.items():
            if argument in metafunc.fixturenames:
                points = [point for point in self.fault_points if point.operation in operations]
                metafunc.parametrize(argument, points, ids=str)

    @pytest.fixture
    def record_outcome(self, record_property: Callable[[str, object], None]) -> RecordOutcome:
        """Note how a call ended for the matrix at the end of the run."""

        def record(provider: str, point: FaultPoint, word: str) -> None:
            number = self.fault_points.index(point)
            record_property(PROPERTY, (provider, number, point.operation.value, point.step, point.way.value, word))

        return record

    async def test_the_faults_cover_every_operation(self) -> None:
        """A suite without faults would prove nothing about them."""
        assert {point.operation for point in self.fault_points} == set(Operation)
        for operation in (Operation.CREATE, Operation.DELETE):
            ways = {point.way for point in self.fault_points if point.operation is operation}
            assert ways == set(FaultWay), f"{operation} has no fault of the ways {set(FaultWay) - ways}"

    async def test_a_create_that_broke_is_completed_by_the_next(
        self, harness: ProviderHarness, create_fault: FaultPoint, record_outcome: RecordOutcome
    ) -> None:
        """Whatever step it broke at: exactly one instance, whole, that a delete removes without a trace."""
        request = harness.request()
        outcome = await suffered(harness, create_fault, request, record_outcome)
        other = harness.provider()
        instance = await retried(harness, lambda: other.create(request))
        if outcome.word == "ok":
            assert instance.incarnation == outcome.value.incarnation
        seen = await running(harness, other, instance)
        assert (seen.uid, seen.installation, seen.spec_hash) == (request.uid, OURS, request.spec_hash)
        assert await harness.instances_of(request.name) == 1
        await removed(harness, other, instance)

    async def test_a_create_that_broke_can_be_abandoned(
        self, harness: ProviderHarness, create_fault: FaultPoint, record_outcome: RecordOutcome
    ) -> None:
        """A Proxy that is deleted instead: what there is is found by its name, and its delete leaves nothing."""
        request = harness.request()
        await suffered(harness, create_fault, request, record_outcome)
        other = harness.provider()
        # A step that hung may take effect only now.
        found = await retried(harness, lambda: other.find(request.name))
        if found is None and create_fault.way in (FaultWay.HANGS, FaultWay.PROCESS_DIES):
            await asyncio.sleep(0.5)
            found = await retried(harness, lambda: other.find(request.name))
        if found is not None:
            await removed(harness, other, found)
        assert await harness.instances_of(request.name) == 0

    async def test_a_delete_that_broke_is_completed_by_the_next(
        self, harness: ProviderHarness, delete_fault: FaultPoint, record_outcome: RecordOutcome
    ) -> None:
        """Whatever step it broke at: nothing is left."""
        instance = await created(harness, harness.provider())
        await suffered(harness, delete_fault, instance, record_outcome)
        await removed(harness, harness.provider(), instance)

    async def test_a_look_that_broke_never_says_that_nothing_is_there(
        self, harness: ProviderHarness, reading_fault: FaultPoint, record_outcome: RecordOutcome
    ) -> None:
        """A guess would make the caller create a second instance or forget the first."""
        provider = harness.provider()
        instance = await created(harness, provider)
        outcome = await suffered(harness, reading_fault, instance, record_outcome)
        if outcome.word == "ok":
            seen = outcome.value if reading_fault.operation is Operation.LIST else [outcome.value]
            assert [one and one.incarnation for one in seen] == [instance.incarnation]
        assert (await provider.get(instance.provider_id)).state is InstanceState.RUNNING

    @pytest.mark.parametrize("operation", list(Operation))
    async def test_a_cancelled_call_returns_promptly(self, harness: ProviderHarness, operation: Operation) -> None:
        """A worker that shuts down waits for nobody's backend."""
        points = [point for point in self.fault_points if (point.operation, point.way) == (operation, FaultWay.HANGS)]
        assert points, f"no step of {operation} hangs"
        subject = harness.request() if operation is Operation.CREATE else await created(harness, harness.provider())
        async with harness.broken(points[0]) as fault:
            call = asyncio.ensure_future(perform(harness.provider(), operation, subject))
            deadline = time.monotonic() + harness.patience_seconds
            while not fault.happened:
                assert time.monotonic() < deadline, f"{points[0]} was never reached"
                await asyncio.sleep(0.01)
            cancelled_at = time.monotonic()
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            assert time.monotonic() - cancelled_at < _PROMPTLY_SECONDS

    async def test_a_backend_out_of_reach_is_not_an_answer(self, harness: ProviderHarness) -> None:
        """It is neither "gone" nor "none", and no reason to give up for good."""
        provider = harness.provider()
        instance = await created(harness, provider)
        async with harness.backend_down():
            for operation in Operation:
                subject = harness.request() if operation is Operation.CREATE else instance
                call = perform(harness.provider(), operation, subject)
                outcome = await outcome_of(call, harness.patience_seconds)
                assert outcome.word in ("TransientError", "AccessDeniedError"), f"{operation}: {outcome}"
        assert (await running(harness, provider, instance)).incarnation == instance.incarnation
