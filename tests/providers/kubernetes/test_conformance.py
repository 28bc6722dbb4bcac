"""The ``kubernetes`` provider keeps the contract, whichever request breaks."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from providers.conformance import Operation, ProviderConformance, perform
from tests.providers.kubernetes.conformance_harness import STEPS, KubernetesHarness, fault_points
from tests.providers.kubernetes.node_harness import NodeHarness
from tests.providers.kubernetes.relay import Relay
from tests.support.kubectl import Kubectl
from tests.support.node import RealNode


class TestKubernetesConformance(ProviderConformance):
    fault_points = fault_points()

    @pytest.fixture
    async def harness(self, relay: Relay, restricted_namespace: str) -> AsyncIterator[KubernetesHarness]:
        harness = KubernetesHarness(relay, restricted_namespace)
        yield harness
        await harness.close()

    async def test_every_step_is_known(self, relay: Relay, harness: KubernetesHarness) -> None:
        relay.plant()
        instance = await harness.provider().create(harness.request())
        assert relay.steps == STEPS[Operation.CREATE]
        for operation in (Operation.FIND, Operation.GET, Operation.LIST, Operation.DELETE):
            relay.plant()
            await perform(harness.provider(), operation, instance)
            assert relay.steps == STEPS[operation]


class TestKubernetesNodeConformance(ProviderConformance):
    fault_points = fault_points()

    @pytest.fixture
    async def harness(self, node: RealNode, node_kubectl: Kubectl, tmp_path: Path) -> AsyncIterator[NodeHarness]:
        async with Relay(node.kubeconfig, tmp_path) as relay:
            harness = NodeHarness(relay, node_kubectl.namespace, node.squid_image)
            yield harness
            await harness.close()
