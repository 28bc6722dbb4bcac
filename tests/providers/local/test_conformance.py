"""The ``local`` provider keeps the contract, whatever step breaks."""

import pytest

from providers.conformance import Operation, ProviderConformance, perform
from tests.providers.local.boxes import TestBox, running
from tests.providers.local.conftest import BoxFactory
from tests.providers.local.harness import AFTER_ITS_END, STEPS, LocalHarness, LocalTap, fault_points
from tests.providers.local.system_calls import tapped

_OF_THE_SOFTWARE = (
    "flock lock",
    "read instance.json",
    "write config",
    "open proxy.log",
    "posix_spawn",
    "pidfd",
    "rename",
)
"""What may differ with what runs; every other step is the same for every software."""


class TestLocalConformance(ProviderConformance):
    fault_points = fault_points()

    @pytest.fixture
    def harness(self, make_box: BoxFactory) -> LocalHarness:
        return LocalHarness(make_box("proxy.py"))

    async def test_every_step_is_known(self, make_box: BoxFactory) -> None:
        box = make_box("proxy.py")
        harness, request = LocalHarness(box), box.request()
        with tapped(LocalTap(box.state_dir)) as seen:
            instance = await harness.provider().create(request)
        assert seen.steps == STEPS[Operation.CREATE]
        await running(box.provider(), instance.provider_id)
        for operation in (Operation.FIND, Operation.GET, Operation.LIST, Operation.DELETE):
            with tapped(LocalTap(box.state_dir)) as seen:
                await perform(harness.provider(), operation, instance)
            assert seen.steps == [step for step in STEPS[operation] if not step.startswith(AFTER_ITS_END)]


class TestLocalSquidConformance(ProviderConformance):
    fault_points = fault_points(_OF_THE_SOFTWARE)

    @pytest.fixture
    def harness(self, squid_box: TestBox) -> LocalHarness:
        return LocalHarness(squid_box)
