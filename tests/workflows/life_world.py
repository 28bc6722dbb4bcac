"""Many Proxies at once around the real workflow: objects, a backend that fails as it is told, and what went wrong."""

import asyncio
import dataclasses
import itertools
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from temporalio import activity
from temporalio.exceptions import ApplicationError

from model import messages, names
from model.health import HEALTHY, HealthChange, HealthState
from model.instance import Instance, InstanceState
from model.proxy import Proxy, ProxySpec, ProxyStatus

ROUTE = messages.ProviderRoute(task_queue=names.QUEUE_PROVIDER, probe_task_queue=names.QUEUE_PROBES, entry_hash="entry")
PROVIDER_ID = "box/1"
LATE_SECONDS = 0.2
"""When an effect takes place whose call has failed already."""
PATIENCE_SECONDS = 1.5
"""How long a call may still come that was decided on before a pause was read."""


@dataclass(frozen=True)
class Fault:
    """What becomes of one call of the provider.

    Attributes:
        error: The error's class.
        effect: ``none``, ``done`` (only the answer is lost) or ``late``.
    """

    error: str
    effect: str = "none"


class Life:
    """One Proxy object and the instances at its provider under its name."""

    def __init__(self, name: str, faults: list[Fault | None]) -> None:
        self.name = name
        self._uids = (f"{name}-{number}" for number in itertools.count(1))
        self._incarnations = (f"i{number}" for number in itertools.count(1))
        self.faults = faults
        self.proxy: Proxy | None = self.new_object()
        self.version = 0
        self.spec_hash = "v1-a"
        self.instances: list[Instance] = []
        self.stranger = False
        self.created_as = InstanceState.RUNNING
        self.wrong: list[str] = []
        self.paused_at = 0.0
        self.calls: list[str] = []
        self.reads = 0

    def new_object(self) -> Proxy:
        spec = ProxySpec(mode="Managed", provider="box")
        return Proxy(namespace="ns", name=self.name, uid=next(self._uids), generation=1, spec=spec)

    @property
    def uid(self) -> str:
        return self.proxy.uid if self.proxy is not None else ""

    @property
    def fingerprint(self) -> str:
        return f"f{self.version}" if self.proxy is not None else "gone"

    def instance(self, state: InstanceState, spec_hash: str) -> Instance:
        """Return a fresh instance of the object."""
        return Instance(
            provider_id=PROVIDER_ID,
            incarnation=next(self._incarnations),
            name="proxy",
            state=state,
            ip="127.0.0.9" if state is InstanceState.RUNNING else "",
            uid=self.uid,
            spec_hash=spec_hash,
            created_at=datetime.now(UTC),
        )

    # ------------------------------------------------------------------ the object

    def change(self, **changes: Any) -> None:
        if self.proxy is not None:
            self.proxy = dataclasses.replace(self.proxy, **changes)
            self.version += 1

    def change_spec(self, **changes: Any) -> None:
        if self.proxy is not None:
            spec = dataclasses.replace(self.proxy.spec, **changes)
            self.change(spec=spec, generation=self.proxy.generation + 1)
            self.paused_at = time.monotonic() if spec.paused else 0.0

    def delete(self, annotations: Mapping[str, str]) -> None:
        """What no finalizer holds is gone at once."""
        if self.proxy is not None and not self.proxy.finalizers:
            self.proxy = None
        else:
            self.change(deleting=True, annotations=annotations)

    def read(self) -> messages.ProxyReading:
        if self.proxy is None:
            return messages.ProxyReading(fingerprint=self.fingerprint)
        return messages.ProxyReading(
            proxy=self.proxy, spec_hash=self.spec_hash, route=ROUTE, fingerprint=self.fingerprint
        )

    def release(self, uid: str) -> None:
        if self.proxy is None or self.proxy.uid != uid:
            return
        if any(instance.uid == uid for instance in self.instances) and not self.proxy.skips_cleanup:
            self.wrong.append("the finalizer went before the instance")
        self.proxy = None

    # ------------------------------------------------------------------ the provider

    async def call(self, name: str, effect: Callable[[], None]) -> None:
        """Do what is asked, or fail as planned."""
        self.calls.append(name)
        proxy = self.proxy
        if proxy is not None and proxy.is_paused and time.monotonic() - self.paused_at > PATIENCE_SECONDS:
            self.wrong.append(f"{name} while it was paused")
        fault = self.faults.pop(0) if self.faults else None
        if fault is None:
            effect()
            return
        if fault.effect == "done":
            effect()
        elif fault.effect == "late":
            asyncio.get_running_loop().call_later(LATE_SECONDS, effect)
        tries = 1 if fault.effect == "none" else 3
        raise ApplicationError(f"{name} failed", "entry", tries, type=fault.error, non_retryable=True)

    def of(self, uid: str) -> Instance | None:
        return next((instance for instance in self.instances if instance.uid == uid), None)

    def create(self, uid: str) -> None:
        proxy = self.proxy
        if self.of(uid) is not None:
            return
        if proxy is None or proxy.uid != uid:
            # It was decided before the object went, and lands in time; whoever waits for that finds it.
            return
        if names.FINALIZER not in proxy.finalizers:
            self.wrong.append("created without a finalizer")
        if self.instances:
            self.wrong.append("two instances at once")
        self.instances.append(self.instance(self.created_as, self.spec_hash))

    def remove(self, incarnation: str) -> None:
        self.instances = [instance for instance in self.instances if instance.incarnation != incarnation]

    def arrive(self) -> None:
        """What is coming runs."""
        self.instances = [
            dataclasses.replace(instance, state=InstanceState.RUNNING, ip="127.0.0.9")
            if instance.state is InstanceState.COMING
            else instance
            for instance in self.instances
        ]


class Lives:
    """The activities of all of them."""

    def __init__(self) -> None:
        self._lives: dict[str, Life] = {}

    def add(self, life: Life) -> None:
        self._lives[life.name] = life

    def _life(self, reference: messages.ProxyReference) -> Life:
        return self._lives[reference.name]

    def _life_of(self, query: messages.InstanceQuery) -> Life:
        return self._lives[query.uid.rpartition("-")[0]]

    @activity.defn
    async def read_proxy(self, reference: messages.ProxyReference) -> messages.ProxyReading:
        life = self._life(reference)
        life.reads += 1
        return life.read()

    @activity.defn
    async def add_finalizer(self, reference: messages.ProxyReference) -> messages.ProxyReading:
        life = self._life(reference)
        if life.uid == reference.uid and life.proxy is not None and not life.proxy.deleting:
            life.change(finalizers=(names.FINALIZER,))
        return life.read()

    @activity.defn
    async def release_finalizers(self, reference: messages.ProxyReference) -> bool:
        self._life(reference).release(reference.uid)
        return True

    @activity.defn
    async def record_spec_hash(self, write: messages.SpecHashWrite) -> bool:
        return self._life(write.reference).uid == write.reference.uid

    @activity.defn
    async def write_status(self, write: messages.StatusWrite) -> bool:
        life = self._life(write.reference)
        if life.proxy is None or life.uid != write.reference.uid:
            return False
        life.proxy = dataclasses.replace(life.proxy, status=write.status)
        return True

    @activity.defn
    async def tell_broker(self, _tell: messages.BrokerTell) -> messages.BrokerAnswer:
        return messages.BrokerAnswer(accepted=True)

    @activity.defn
    async def look_for_instance(self, query: messages.InstanceQuery) -> messages.InstanceAnswer:
        life = self._life_of(query)
        await life.call("look", lambda: None)
        found = life.of(query.uid)
        if found is None and life.stranger:
            raise ApplicationError("somebody else's", "entry", 1, type="NameTakenError", non_retryable=True)
        return messages.InstanceAnswer(instance=found, entry_hash="entry")

    @activity.defn
    async def create_instance(self, create: messages.CreateInstance) -> messages.InstanceAnswer:
        life, uid = self._life(create.reference), create.reference.uid
        if life.proxy is None or life.uid != uid or life.proxy.deleting:
            raise ApplicationError("nothing was created", "", 0, type="ObjectChanged", non_retryable=True)
        if life.stranger:
            raise ApplicationError("somebody else's", "entry", 1, type="NameTakenError", non_retryable=True)
        await life.call("create", lambda: life.create(uid))
        return messages.InstanceAnswer(instance=life.of(uid), entry_hash="entry")

    @activity.defn
    async def await_instance(self, query: messages.InstanceQuery) -> messages.InstanceAnswer:
        life = self._life_of(query)
        await life.call("await", life.arrive)
        return messages.InstanceAnswer(instance=life.of(query.uid), entry_hash="entry")

    @activity.defn
    async def remove_instance(self, remove: messages.RemoveInstance) -> bool:
        life, reference = self._life(remove.reference), remove.reference
        alive = life.proxy is not None and life.uid == reference.uid and not life.proxy.deleting
        if alive is not remove.replacing:
            return False
        await life.call("remove", lambda: life.remove(remove.incarnation))
        return True

    @activity.defn
    async def drain_proxy(self, drain: messages.DrainProxy) -> int:
        await asyncio.sleep(max(0.0, min(0.3, drain.ends_at / 1000 - time.time())))
        return 0

    @activity.defn
    async def unmark_instance(self, unmark: messages.UnmarkInstance) -> bool:
        life = self._life(unmark.reference)
        await life.call("unmark", lambda: life.remove(unmark.incarnation))
        return True

    @activity.defn
    async def watch_health(self, watch: messages.WatchHealth) -> messages.HealthReport:
        if watch.state.verdict == HEALTHY:
            # Nothing changes any more; a retry far away holds no slot.
            raise ApplicationError("nothing new", next_retry_delay=timedelta(hours=1))
        change = HealthChange(
            verdict=HEALTHY, reason="ProbeSucceeded", latency_millis=7, checked_at="2026-01-01T00:00:00Z"
        )
        return messages.HealthReport(state=HealthState(verdict=HEALTHY), change=change)

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


def is_true(status: ProxyStatus, type_: str) -> bool:
    found = status.condition(type_)
    return found is not None and found.status == "True"
