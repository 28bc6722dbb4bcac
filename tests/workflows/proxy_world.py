"""Scripted activities around a real ProxyWorkflow on a real Temporal server, for races that real parts do not show."""

import asyncio
import dataclasses
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

from temporalio import activity
from temporalio.client import Client, WorkflowHandle
from temporalio.worker import Worker
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner, SandboxRestrictions

from model import messages, names
from model.health import HEALTHY, HealthChange, HealthState
from model.instance import Instance, InstanceState
from model.proxy import Proxy, ProxySpec
from model.proxy_state import ProxyState
from workflows.proxy import ProxyWorkflow

NAMESPACE, NAME = "ns", "px"
ROUTE = messages.ProviderRoute(task_queue=names.QUEUE_PROVIDER, probe_task_queue=names.QUEUE_PROBES, entry_hash="entry")


def managed(uid: str = "uid-1", **changes: Any) -> Proxy:
    """Return a Managed Proxy that already has its finalizer."""
    proxy = Proxy(
        namespace=NAMESPACE,
        name=NAME,
        uid=uid,
        generation=1,
        finalizers=(names.FINALIZER,),
        spec=ProxySpec(mode="Managed", provider="box"),
    )
    return dataclasses.replace(proxy, **changes)


def external(uid: str = "uid-1", **changes: Any) -> Proxy:
    spec = ProxySpec(mode="External", endpoint_host="127.0.0.1")
    return dataclasses.replace(managed(uid), finalizers=(), spec=spec, **changes)


class World:
    """An object, an instance and a broker, as the workflow's activities see them; what they are asked is kept."""

    def __init__(self, proxy: Proxy | None) -> None:
        self.proxy = proxy
        self.fingerprint = "f0"
        self.instance: Instance | None = None
        self.reads = 0
        self.calls: list[str] = []
        self.tells: list[messages.BrokerTell] = []
        self.orders: list[tuple[int, int]] = []
        self.newer_order: tuple[int, int] | None = None
        self.hold_tells = asyncio.Event()
        self.hold_tells.set()
        self.errors: dict[str, Exception] = {}

    @activity.defn
    async def read_proxy(self, _reference: messages.ProxyReference) -> messages.ProxyReading:
        self.reads += 1
        if self.proxy is None:
            return messages.ProxyReading(fingerprint=self.fingerprint)
        route = ROUTE if self.proxy.spec.managed else None
        return messages.ProxyReading(proxy=self.proxy, spec_hash="v1-aaaa", route=route, fingerprint=self.fingerprint)

    @activity.defn
    async def add_finalizer(self, reference: messages.ProxyReference) -> messages.ProxyReading:
        self._called("add_finalizer")
        return await self.read_proxy(reference)

    @activity.defn
    async def release_finalizers(self, _reference: messages.ProxyReference) -> bool:
        self._called("release_finalizers")
        self.proxy = None
        self.fingerprint = "gone"
        return True

    @activity.defn
    async def record_spec_hash(self, _write: messages.SpecHashWrite) -> bool:
        return True

    @activity.defn
    async def write_status(self, write: messages.StatusWrite) -> bool:
        self._called("write_status")
        if self.proxy is None or self.proxy.uid != write.reference.uid:
            return False
        self.proxy = dataclasses.replace(self.proxy, status=write.status)
        return True

    @activity.defn
    async def tell_broker(self, tell: messages.BrokerTell) -> messages.BrokerAnswer:
        order = (tell.order[0], tell.order[1])
        self.orders.append(order)
        await self.hold_tells.wait()
        if self.newer_order is not None and order <= self.newer_order:
            return messages.BrokerAnswer(accepted=False, order=self.newer_order)
        self.tells.append(tell)
        return messages.BrokerAnswer(accepted=True)

    @activity.defn
    async def look_for_instance(self, _query: messages.InstanceQuery) -> messages.InstanceAnswer:
        self._called("look_for_instance")
        return messages.InstanceAnswer(instance=self.instance, entry_hash="entry")

    @activity.defn
    async def create_instance(self, create: messages.CreateInstance) -> messages.InstanceAnswer:
        self._called("create_instance")
        self.instance = Instance(
            provider_id="box/1",
            incarnation="i1",
            name="proxy-1",
            state=InstanceState.RUNNING,
            ip="127.0.0.9",
            uid=create.reference.uid,
            spec_hash="v1-aaaa",
            created_at=datetime.now(UTC),
        )
        return messages.InstanceAnswer(instance=self.instance, entry_hash="entry")

    @activity.defn
    async def await_instance(self, _query: messages.InstanceQuery) -> messages.InstanceAnswer:
        return messages.InstanceAnswer(instance=self.instance, entry_hash="entry")

    @activity.defn
    async def remove_instance(self, _remove: messages.RemoveInstance) -> bool:
        self._called("remove_instance")
        self.instance = None
        return True

    @activity.defn
    async def watch_health(self, watch: messages.WatchHealth) -> messages.HealthReport:
        if watch.state.verdict == HEALTHY:
            while True:
                activity.heartbeat()
                await asyncio.sleep(0.2)
        return messages.HealthReport(
            state=HealthState(verdict=HEALTHY),
            change=HealthChange(
                verdict=HEALTHY, reason="ProbeSucceeded", latency_millis=7, checked_at="2026-01-01T00:00:00Z"
            ),
        )

    def _called(self, name: str) -> None:
        self.calls.append(name)
        if name in self.errors:
            raise self.errors[name]

    @property
    def activities(self) -> list[Any]:
        return [
            self.read_proxy,
            self.add_finalizer,
            self.release_finalizers,
            self.record_spec_hash,
            self.write_status,
            self.tell_broker,
            self.look_for_instance,
            self.create_instance,
            self.await_instance,
            self.remove_instance,
            self.watch_health,
        ]


@asynccontextmanager
async def running_world(client: Client, world: World, *, cached_workflows: int = 100) -> AsyncIterator[None]:
    """Serve the workflow and its scripted activities on all queues."""
    control = Worker(
        client,
        task_queue=names.QUEUE_CONTROL,
        workflows=[ProxyWorkflow],
        activities=world.activities,
        max_cached_workflows=cached_workflows,
        workflow_runner=SandboxedWorkflowRunner(
            restrictions=SandboxRestrictions.default.with_passthrough_modules("model")
        ),
    )
    provider = Worker(client, task_queue=names.QUEUE_PROVIDER, activities=world.activities)
    probes = Worker(client, task_queue=names.QUEUE_PROBES, activities=world.activities)
    async with control, provider, probes:
        yield


async def start(client: Client, fingerprint: str = "f0") -> WorkflowHandle[Any, Any]:
    """Poke the workflow into life."""
    return await client.start_workflow(
        ProxyWorkflow.run,
        ProxyState(namespace=NAMESPACE, name=NAME),
        id=names.proxy_workflow_id(NAMESPACE, NAME),
        task_queue=names.QUEUE_CONTROL,
        start_signal="changed",
        start_signal_args=[poke(fingerprint)],
    )


def poke(fingerprint: str, uid: str = "uid-1", **more: Any) -> messages.Poke:
    return messages.Poke(namespace=NAMESPACE, name=NAME, uid=uid, fingerprint=fingerprint, **more)
