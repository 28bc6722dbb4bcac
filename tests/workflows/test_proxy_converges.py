"""Whatever state a Proxy is in and however its provider fails: in the end one instance, or none; never two."""

import asyncio
import dataclasses
import itertools
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from temporalio.client import Client, WorkflowExecutionStatus, WorkflowHandle
from temporalio.common import WorkflowIDReusePolicy
from temporalio.service import RPCError
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from activities.drift import differs
from model import failures, messages, names
from model.instance import InstanceState
from model.proxy import Condition, ProxyStatus
from model.proxy_state import ProxyState
from model.reasons import Cause
from tests.e2e.polling import eventually
from tests.workflows.life_world import LATE_SECONDS, PROVIDER_ID, Fault, Life, Lives, is_true
from workflows.proxy import ProxyWorkflow

LIVES_AT_ONCE = 8
WAIT_SECONDS = 0.05

REFUSALS = ("TransientError", "QuotaExceededError", "AccessDeniedError", "PermanentError", "ProviderNotConfiguredError")
FAULTS = st.one_of(
    st.none(),
    st.builds(Fault, error=st.sampled_from(REFUSALS)),
    # An answer that is lost, or a call that ran out of time, says nothing about its effect.
    st.builds(Fault, error=st.just("TransientError"), effect=st.sampled_from(["done", "late"])),
)
EVENTS = (
    "edit",
    "edit back",
    "rotate",
    "annotate rotate",
    "retry",
    "look",
    "pause",
    "unpause",
    "stop",
    "vanish",
    "comes slowly",
    "drain",
    "stranger",
    "terminate",
    "recreate",
)
STATUSES = ("none", "creating", "running", "other incarnation", "replacing", "rotating", "failed", "paused", "deleting")


@dataclass(frozen=True)
class Script:
    """How a life begins, what happens in it, and how it ends.

    Attributes:
        status: What the object says at first.
        instance: What the provider has then: nothing, or an instance in that state, made from that spec.
        faults: What becomes of the first calls of the provider.
        events: What happens, each with the seconds until the next.
        ending: ``lives``, ``deleted`` or ``abandoned``.
    """

    status: str
    instance: tuple[InstanceState, str] | None
    faults: list[Fault | None]
    events: list[tuple[str, float]]
    ending: str


SCRIPTS = st.builds(
    Script,
    status=st.sampled_from(STATUSES),
    instance=st.one_of(
        st.none(), st.tuples(st.sampled_from(list(InstanceState)), st.sampled_from(["v1-a", "v1-b", "", "old"]))
    ),
    faults=st.lists(FAULTS, max_size=8),
    events=st.lists(st.tuples(st.sampled_from(EVENTS), st.sampled_from([0.0, 0.05, 0.3])), max_size=6),
    ending=st.sampled_from(["lives", "lives", "deleted", "abandoned"]),
)

_NUMBERS = itertools.count(1)


def begin(script: Script) -> Life:
    """Return a life as its script has it at first."""
    life = Life(f"px{next(_NUMBERS)}", [])
    assert life.proxy is not None
    if script.status == "none":
        # What nobody has written a word about has no finalizer and no instance.
        return life
    life.change(finalizers=(names.FINALIZER,))
    if script.instance is not None:
        life.instances.append(life.instance(*script.instance))
    life.change(status=_first_status(script.status, life))
    return life


def _first_status(kind: str, life: Life) -> ProxyStatus:
    there = life.instances[0] if life.instances else None
    recorded = {
        "provider_id": PROVIDER_ID,
        "incarnation": there.incarnation if there is not None and kind != "other incarnation" else "i0",
    }
    served = {**recorded, "ip": "127.0.0.9"}
    said: dict[str, tuple[str, str, str, dict[str, Any]]] = {
        "creating": ("Provisioning", "Creating", "", {}),
        "running": ("Ready", "Running", "", served),
        "other incarnation": ("Ready", "Running", "", served),
        "replacing": ("Provisioning", "Replacing", str(Cause.SPEC), recorded),
        "rotating": ("Provisioning", "TransientError", f"{Cause.ROTATION}; busy", recorded),
        "failed": ("Failed", "PermanentError", "boom", {"failed_cause": "generation=1,spec=v1-a,entry=entry,retry="}),
        "paused": ("Pending", "Paused", "paused", served),
        "deleting": ("Deleting", "Deleting", "", recorded),
    }
    phase, reason, message, more = said[kind]
    running = "True" if "ip" in more else "False"
    conditions = (
        Condition(
            type="Provisioned",
            status=running,
            reason=reason,
            message=message,
            last_transition_time="2026-01-01T00:00:00Z",
        ),
        Condition(type="Healthy", status="True" if phase == "Ready" else "Unknown", reason="NoVerdict"),
    )
    return ProxyStatus(phase=phase, conditions=conditions, **more)


class Driver:
    """Lets things happen to one life."""

    def __init__(self, client: Client, life: Life) -> None:
        self.client = client
        self.life = life
        self.id = names.proxy_workflow_id("ns", life.name)

    async def poke(self, *, look: bool = False) -> WorkflowHandle[Any, Any]:
        life = self.life
        poke = messages.Poke(
            namespace="ns", name=life.name, uid=life.uid, fingerprint="" if look else life.fingerprint, look=look
        )
        return await self.client.start_workflow(
            ProxyWorkflow.run,
            ProxyState(namespace="ns", name=life.name),
            id=self.id,
            task_queue=names.QUEUE_CONTROL,
            start_signal="changed",
            start_signal_args=[poke],
            id_reuse_policy=WorkflowIDReusePolicy.ALLOW_DUPLICATE,
        )

    async def happen(self, event: str) -> None:
        life, handle = self.life, self.client.get_workflow_handle(self.id)
        if life.proxy is None:
            return
        annotations = life.proxy.annotations
        match event:
            case "edit" | "edit back":
                life.spec_hash = "v1-b" if event == "edit" else "v1-a"
                life.change_spec(port=3129 if event == "edit" else 3128)
            case "rotate" | "retry":
                await handle.signal(event)
            case "annotate rotate":
                life.change(annotations={**annotations, names.ANNOTATION_ROTATE: str(life.version)})
            case "pause" | "unpause":
                life.change_spec(paused=event == "pause")
            case "stop":
                life.instances = [
                    dataclasses.replace(one, state=InstanceState.STOPPED, ip="") for one in life.instances
                ]
            case "vanish":
                life.instances = []
            case "comes slowly":
                life.created_as = InstanceState.COMING
            case "drain":
                life.change_spec(drain_seconds=1)
            case "stranger":
                life.stranger = not life.instances
            case "terminate":
                await self._terminate(handle)
            # What no workflow has ever read of is the garbage collection's.
            case "recreate" if life.reads and life.proxy.status.provider_id and life.of(life.uid) is not None:
                life.proxy = life.new_object()
                life.version += 1
        await self.poke(look=event in ("look", "stop", "vanish"))

    async def _terminate(self, handle: WorkflowHandle[Any, Any]) -> None:
        await handle.terminate()
        self.life.reads = 0
        # What it has sent to the provider may still take effect; the next one must reckon with that.
        await self.poke()
        await asyncio.sleep(LATE_SECONDS)

    async def settle(self, ending: str) -> None:
        """End the life as it is meant to, as people and the scheduled checks would help it."""
        life = self.life
        life.change_spec(paused=False)
        if ending != "lives" and life.proxy is not None:
            skip = {names.ANNOTATION_SKIP_CLEANUP: "true"} if ending == "abandoned" else {}
            life.delete({**life.proxy.annotations, **skip})
        await self.poke()
        try:
            await eventually(lambda: self._is_over(ending), within=25)
        except AssertionError:
            raise AssertionError(
                f"no end: {ending}, {life.proxy and life.proxy.status}, {life.instances}, {life.calls[-20:]}"
            ) from None

    async def _is_over(self, ending: str) -> bool:
        life = self.life
        if ending == "lives":
            await self._help()
            return _is_as_it_should_be(life)
        if life.proxy is not None:
            return False
        status = (await self.client.get_workflow_handle(self.id).describe()).status
        return status is WorkflowExecutionStatus.COMPLETED and (ending == "abandoned" or not life.instances)

    async def _help(self) -> None:
        """Do what the drift check does, and what a human does who has made room for a name or read of a failure."""
        life = self.life
        if life.proxy is None:
            return
        if differs(life.proxy, life.of(life.uid), "entry"):
            await self.poke(look=True)
        if life.proxy.status.failed_cause:
            life.stranger = False
            await self.client.get_workflow_handle(self.id).signal("retry")


def _is_as_it_should_be(life: Life) -> bool:
    proxy = life.proxy
    if proxy is None or len(life.instances) != 1:
        return False
    (instance,) = life.instances
    status = proxy.status
    return (
        instance.uid == proxy.uid
        and instance.state is InstanceState.RUNNING
        and instance.spec_hash in (life.spec_hash, "", "old")
        and names.FINALIZER in proxy.finalizers
        and (status.ip, status.provider_id, status.incarnation) == (instance.ip, PROVIDER_ID, instance.incarnation)
        and status.phase == "Ready"
        and is_true(status, "Ready")
        and is_true(status, "Provisioned")
        and status.observed_generation == proxy.generation
        and status.failed_cause == ""
    )


async def live(client: Client, lives: Lives, script: Script) -> None:
    """Live one life to its end."""
    life = begin(script)
    life.faults = list(script.faults)
    lives.add(life)
    driver = Driver(client, life)
    await driver.poke()
    for event, seconds in script.events:
        await driver.happen(event)
        await asyncio.sleep(seconds)
    await driver.settle(script.ending)
    # What was late has landed by now.
    await asyncio.sleep(LATE_SECONDS)
    assert life.wrong == []
    if script.ending == "deleted":
        assert life.instances == []
    elif script.ending == "lives":
        assert len(life.instances) == 1
    handle = client.get_workflow_handle(driver.id)
    try:
        await handle.terminate()
    except RPCError:
        assert script.ending != "lives"


@pytest.fixture
async def lives(temporal_client: Client, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Lives]:
    """Workers of all queues, with waits that are a hundredth of the real ones."""
    monkeypatch.setattr(failures, "FIRST_WAIT_SECONDS", WAIT_SECONDS)
    monkeypatch.setattr(failures, "SLOW_WAIT_SECONDS", WAIT_SECONDS)
    monkeypatch.setattr(failures, "wait_after", lambda failure, _: None if failure.latched else WAIT_SECONDS)
    monkeypatch.setattr(failures, "CREATE_DEADLINE_SECONDS", 3 * LATE_SECONDS)
    monkeypatch.setattr("model.proxy_facts.doubling_wait", lambda _: WAIT_SECONDS)
    found = Lives()
    queues = (names.QUEUE_CONTROL, names.QUEUE_PROVIDER, names.QUEUE_PROBES)
    workers = [
        Worker(
            temporal_client,
            task_queue=queue,
            workflows=[ProxyWorkflow] if queue == names.QUEUE_CONTROL else [],
            activities=found.activities,
            workflow_runner=UnsandboxedWorkflowRunner(),
        )
        for queue in queues
    ]
    async with workers[0], workers[1], workers[2]:
        yield found


@given(scripts=st.lists(SCRIPTS, min_size=LIVES_AT_ONCE, max_size=LIVES_AT_ONCE))
@settings(
    max_examples=6,
    phases=[Phase.generate],
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.large_base_example],
)
async def test_every_life_comes_to_its_end(temporal_client: Client, lives: Lives, scripts: list[Script]) -> None:
    await asyncio.gather(*(live(temporal_client, lives, script) for script in scripts))
