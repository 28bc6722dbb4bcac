"""The ``kubernetes`` provider in the conformance suite on a real node: Pods come up, stop and end as they do in use."""

from typing import Any

from model.instance import Instance
from tests.providers.kubernetes.conformance_harness import KubernetesHarness
from tests.providers.kubernetes.relay import Relay


class NodeHarness(KubernetesHarness):
    """One namespace of a cluster with a kubelet, which runs the project's own image of squid."""

    name = "kubernetes (real node)"

    def __init__(self, relay: Relay, namespace: str, image: str) -> None:
        super().__init__(relay, namespace)
        self._image = image

    def block(self) -> dict[str, Any]:
        return {**super().block(), "image": self._image}

    async def make_run(self, instance: Instance) -> None:
        """The kubelet does so."""

    async def stop(self, instance: Instance) -> None:
        # A running Pod that is over its deadline is ended by the kubelet and never started again.
        await self._relay.admin("PATCH", self._pod(instance.name), {"spec": {"activeDeadlineSeconds": 1}})
