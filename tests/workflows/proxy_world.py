"""Scripted activities around a real ProxyWorkflow on a real Temporal server, for races that real parts do not show."""

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from temporalio import activity
from temporalio.client import Client, WorkflowHandle
from temporalio.exceptions import ApplicationError
from temporalio.worker import UnsandboxedWorkflowRunner, Worker
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner, SandboxRestrictions

from model import messages, names
from model.health import HEALTHY, HealthChange, HealthState
from model.instance import Instance, InstanceState
from model.proxy import Proxy, ProxySpec, ProxyStatus
from model.proxy_state import ProxyState
from workflows import activity_calls
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
    return dataclasses.replace(managed(uid), **{"finalizers": (), "spec": spec, **changes})


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
        self.hold_looks = asyncio.Event()
        self.hold_probes = asyncio.Event()
        self.hold_creates = asyncio.Event()
        self.hold_removals = asyncio.Event()
        self.hold_drains = asyncio.Event()
        for event in (
            self.hold_tells,
            self.hold_looks,
            self.hold_probes,
            self.hold_creates,
            self.hold_removals,
            self.hold_drains,
        ):
            event.set()
        self.removals: list[messages.RemoveInstance] = []
        self.drains: list[messages.DrainProxy] = []
        self.drains_fail = False
        self.unmarked: list[messages.UnmarkInstance] = []
        self.statuses: list[ProxyStatus] = []
        self.events: list[messages.ObjectEvent] = []
        self.born: Callable[[], datetime] = lambda: datetime.now(UTC)
        self.route: messages.ProviderRoute | None = ROUTE
        self.spec_hash = "v1-aaaa"
        self.created_as = InstanceState.RUNNING
        self.broker_is_full = False
        self.watches: list[messages.WatchHealth] = []
        self.healthy_watches = 0
        self.after_removal: Callable[[], None] = lambda: None
        self.errors: dict[str, Exception] = {}
        self.hooks: dict[str, Callable[[], Awaitable[None]]] = {}

    @activity.defn
    async def read_proxy(self, _reference: messages.ProxyReference) -> messages.ProxyReading:
        self.reads += 1
        if self.proxy is None:
            return messages.ProxyReading(fingerprint=self.fingerprint)
        route = self.route if self.proxy.spec.managed else None
        return messages.ProxyReading(
            proxy=self.proxy, spec_hash=self.spec_hash, route=route, fingerprint=self.fingerprint
        )

    @activity.defn
    async def add_finalizer(self, reference: messages.ProxyReference) -> messages.ProxyReading:
        await self._called("add_finalizer")
        return await self.read_proxy(reference)

    @activity.defn
    async def release_finalizers(self, _reference: messages.ProxyReference) -> bool:
        await self._called("release_finalizers")
        self.proxy = None
        self.fingerprint = "gone"
        return True

    @activity.defn
    async def record_spec_hash(self, _write: messages.SpecHashWrite) -> bool:
        return True

    @activity.defn
    async def write_status(self, write: messages.StatusWrite) -> bool:
        await self._called("write_status")
        if self.proxy is None or self.proxy.uid != write.reference.uid:
            return False
        self.proxy = dataclasses.replace(self.proxy, status=write.status)
        self.statuses.append(write.status)
        self.events += write.events
        return True

    @activity.defn
    async def tell_broker(self, tell: messages.BrokerTell) -> messages.BrokerAnswer:
        order = (tell.order[0], tell.order[1])
        self.orders.append(order)
        await self.hold_tells.wait()
        if self.newer_order is not None and order <= self.newer_order:
            return messages.BrokerAnswer(accepted=False, order=self.newer_order)
        if self.broker_is_full and tell.view is not None:
            return messages.BrokerAnswer(accepted=False, refusal="the budget is used up")
        self.tells.append(tell)
        return messages.BrokerAnswer(accepted=True)

    @activity.defn
    async def look_for_instance(self, _query: messages.InstanceQuery) -> messages.InstanceAnswer:
        await self._called("look_for_instance")
        await self.hold_looks.wait()
        return messages.InstanceAnswer(instance=self.instance, entry_hash="entry")

    @activity.defn
    async def create_instance(self, create: messages.CreateInstance) -> messages.InstanceAnswer:
        await self._called("create_instance")
        await _held(self.hold_creates)
        self.instance = Instance(
            provider_id="box/1",
            incarnation=f"i{self.calls.count('create_instance')}",
            name="proxy-1",
            state=self.created_as,
            ip="127.0.0.9" if self.created_as is InstanceState.RUNNING else "",
            uid=create.reference.uid,
            spec_hash=self.spec_hash,
            created_at=self.born(),
        )
        return messages.InstanceAnswer(instance=self.instance, entry_hash="entry")

    @activity.defn
    async def await_instance(self, query: messages.InstanceQuery) -> messages.InstanceAnswer:
        await self._called("await_instance")
        while self._is_nothing_new(query):
            activity.heartbeat()
            await asyncio.sleep(0.05)
        return messages.InstanceAnswer(instance=self.instance, entry_hash="entry")

    def _is_nothing_new(self, query: messages.InstanceQuery) -> bool:
        instance = self.instance
        is_coming = instance is not None and instance.state is InstanceState.COMING
        return is_coming and instance is not None and instance.message == query.known_message

    @activity.defn
    async def remove_instance(self, remove: messages.RemoveInstance) -> bool:
        self.removals.append(remove)
        await self._called("remove_instance")
        await _held(self.hold_removals)
        self.instance = None
        self.after_removal()
        return True

    @activity.defn
    async def drain_proxy(self, drain: messages.DrainProxy) -> int:
        self.drains.append(drain)
        await self._called("drain_proxy")
        if self.drains_fail:
            raise ApplicationError("the broker does not answer", type="UnavailableError")
        while not self.hold_drains.is_set() and datetime.now(UTC).timestamp() * 1000 < drain.ends_at:
            activity.heartbeat()
            await asyncio.sleep(0.1)
        return 0

    @activity.defn
    async def unmark_instance(self, unmark: messages.UnmarkInstance) -> bool:
        await self._called("unmark_instance")
        self.unmarked.append(unmark)
        return True

    @activity.defn
    async def watch_health(self, watch: messages.WatchHealth) -> messages.HealthReport:
        self.watches.append(watch)
        while not self.hold_probes.is_set():
            activity.heartbeat()
            await asyncio.sleep(0.1)
        if watch.state.verdict == HEALTHY:
            self.healthy_watches += 1
            while True:
                activity.heartbeat()
                await asyncio.sleep(0.2)
        return messages.HealthReport(
            state=HealthState(verdict=HEALTHY),
            change=HealthChange(
                verdict=HEALTHY, reason="ProbeSucceeded", latency_millis=7, checked_at="2026-01-01T00:00:00Z"
            ),
        )

    async def _called(self, name: str) -> None:
        self.calls.append(name)
        hook = self.hooks.get(name)
        if hook is not None:
            await hook()
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
            self.drain_proxy,
            self.unmark_instance,
            self.watch_health,
        ]


async def _held(event: asyncio.Event) -> None:
    while not event.is_set():
        activity.heartbeat()
        await asyncio.sleep(0.1)


@asynccontextmanager
async def running_world(
    client: Client,
    world: World,
    *,
    cached_workflows: int = 100,
    sandboxed: bool = True,
    schedule_to_start: float | None = None,
) -> AsyncIterator[None]:
    """Serve the workflow and its scripted activities on all queues.

    Args:
        client: Of a Temporal namespace of the test's own.
        world: What the activities show.
        cached_workflows: Size of the workflow cache.
        sandboxed: False lets a test change a constant of the workflow's modules.
        schedule_to_start: Seconds after which a queue counts as served by nobody.
    """
    patch = pytest.MonkeyPatch()
    if schedule_to_start is not None:
        patch.setattr(activity_calls, "SCHEDULE_TO_START", timedelta(seconds=schedule_to_start))
        sandboxed = False
    control = Worker(
        client,
        task_queue=names.QUEUE_CONTROL,
        workflows=[ProxyWorkflow],
        activities=world.activities,
        max_cached_workflows=cached_workflows,
        workflow_runner=SandboxedWorkflowRunner(
            restrictions=SandboxRestrictions.default.with_passthrough_modules("model")
        )
        if sandboxed
        else UnsandboxedWorkflowRunner(),
    )
    provider = Worker(client, task_queue=names.QUEUE_PROVIDER, activities=world.activities)
    probes = Worker(client, task_queue=names.QUEUE_PROBES, activities=world.activities)
    try:
        async with control, provider, probes:
            yield
    finally:
        patch.undo()


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
