"""The ``kubernetes`` provider in the conformance suite: a real API server whose every request can break.

There is no node: Pods are brought up and down by writing their status, and a delete takes effect at once.
"""

import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import Any

from model import names
from model.instance import Instance
from model.proxy import Placement
from providers.conformance import (
    CLOUD_INIT_SENTINEL,
    THEIRS,
    Fault,
    FaultPoint,
    FaultWay,
    Operation,
    ProviderHarness,
    Stranger,
)
from providers.contract import CreateRequest, Provider
from providers.kubernetes.provider import KubernetesProvider
from providers.kubernetes.settings import parse_settings
from tests.providers.kubernetes.relay import CONNECTION, Relay

STEPS = {
    Operation.CREATE: ["GET pod", "GET proxy", "POST pod"],
    Operation.FIND: ["GET pod"],
    Operation.GET: ["GET pod"],
    Operation.DELETE: ["GET pod", "DELETE pod"],
    Operation.LIST: ["LIST pod"],
}
"""Every request of an operation, in order."""

_KINDS_LEFT = ("configmaps", "secrets", "services", "persistentvolumeclaims")
_OF_THE_NAMESPACE = "kube-root-ca.crt"


def fault_points() -> list[FaultPoint]:
    points = []
    for operation, steps in STEPS.items():
        changes = operation in (Operation.CREATE, Operation.DELETE)
        ways = list(FaultWay) if changes else [FaultWay.REFUSED, FaultWay.HANGS, FaultWay.RUBBISH]
        for step in steps:
            points += [FaultPoint(operation, step, way) for way in ways]
            points.append(FaultPoint(operation, step + CONNECTION, FaultWay.REFUSED))
    return points


def running_status(ip: str = "10.244.0.7") -> dict[str, Any]:
    return {
        "phase": "Running",
        "podIP": ip,
        "podIPs": [{"ip": ip}],
        "conditions": [{"type": "Ready", "status": "True"}],
    }


class KubernetesHarness(ProviderHarness):
    """One namespace of a real API server."""

    name = "kubernetes"
    malformed_ids = (
        "",
        "nonsense",
        "/name",
        "namespace/",
        "a/b/c",
        "../../etc/passwd",
        "ns/x\n",
        "local/box/x",
        "NS/x",
    )
    deadline_seconds = 2.0

    def __init__(self, relay: Relay, namespace: str) -> None:
        self._relay = relay
        self._namespace = namespace
        self._providers: list[Provider] = []

    async def close(self) -> None:
        for provider in self._providers:
            await provider.close()

    def block(self) -> dict[str, Any]:
        """Return the block of the providers file."""
        return {"kubeconfig": str(self._relay.kubeconfig), "namespace": self._namespace}

    def provider(self) -> Provider:
        self._providers.append(KubernetesProvider(parse_settings(self.block(), "kubernetes")))
        return self._providers[-1]

    def request(self, uid: str = "uid-a", **changes: Any) -> CreateRequest:
        return super().request(uid, **{"namespace": self._namespace, **changes})

    def impossible_requests(self) -> Sequence[tuple[CreateRequest, str]]:
        return [
            (self.request(port=0), "spec.port"),
            (self.request(port=65536, cloud_init=CLOUD_INIT_SENTINEL), "spec.port"),
            (self.request(spec_hash="v1 with spaces", placement=Placement(zone="ignored")), "metadata.labels"),
        ]

    async def make_run(self, instance: Instance) -> None:
        await self._relay.admin("PATCH", f"{self._pod(instance.name)}/status", {"status": running_status()})

    async def stop(self, instance: Instance) -> None:
        status = {"phase": "Failed", "reason": "Evicted", "message": "The node was low on resource: memory."}
        await self._relay.admin("PATCH", f"{self._pod(instance.name)}/status", {"status": status})

    async def vanish(self, instance: Instance) -> None:
        await self._relay.admin("DELETE", self._pod(instance.name), {"gracePeriodSeconds": 0})

    async def make_strangers(self, instance: Instance, stranger: Stranger) -> None:
        marks = (names.MARK_MANAGED, names.MARK_UID, names.MARK_INSTALLATION, names.MARK_SPEC_HASH)
        labels: dict[Stranger, dict[str, str | None]] = {
            Stranger.OTHER_UID: {names.MARK_UID: "uid-of-somebody"},
            Stranger.OTHER_INSTALLATION: {names.MARK_INSTALLATION: THEIRS},
            Stranger.UNMARKED: dict.fromkeys(marks),
            Stranger.OF_THE_REFERENCE: {names.MARK_INSTALLATION: None, names.MARK_SPEC_HASH: None},
        }
        await self._relay.admin("PATCH", self._pod(instance.name), {"metadata": {"labels": labels[stranger]}})

    async def instances_of(self, name: str) -> int:
        pods = await self._relay.admin("GET", f"/api/v1/pods?fieldSelector=metadata.name={name}")
        return len([pod for pod in pods["items"] if pod["metadata"]["namespace"] == self._namespace])

    async def leftovers(self, name: str) -> Sequence[str]:
        found = []
        for kind in _KINDS_LEFT:
            listed = await self._relay.admin("GET", f"/api/v1/namespaces/{self._namespace}/{kind}")
            found += [f"{kind}/{item['metadata']['name']}" for item in listed["items"]]
        return [each for each in found if not each.endswith(_OF_THE_NAMESPACE)]

    @contextlib.asynccontextmanager
    async def broken(self, point: FaultPoint) -> AsyncIterator[Fault]:
        fault = self._relay.plant(point.step, point.way)
        try:
            yield fault
        finally:
            await self._relay.heal(fault)

    @contextlib.asynccontextmanager
    async def backend_down(self) -> AsyncIterator[None]:
        self._relay.is_down = True
        try:
            yield
        finally:
            self._relay.is_down = False

    def _pod(self, name: str) -> str:
        return f"/api/v1/namespaces/{self._namespace}/pods/{name}"
