"""The life of one Proxy: a level-triggered loop over ``model.decide``.

A poke makes the workflow read the object and act on what it finds. What lasts (waiting for an instance, probing) runs
as an activity that ends only with news, so an idle proxy adds nothing to the history.
"""

import dataclasses
from collections.abc import Sequence

from temporalio import workflow
from temporalio.common import RawValue
from temporalio.exceptions import ActivityError

with workflow.unsafe.imports_passed_through():
    from model import decide as deciding
    from model import failures, messages, names, proxy_facts, spec_hash
    from model.decide import Action, Observed, Presence, Step
    from model.failures import Failure
    from model.proxy import Proxy
    from model.proxy_state import InstanceRecord, ProxyState
    from model.reasons import Provisioned
    from model.status import Health
    from workflows import activity_calls
    from workflows.activity_failures import entry_hash_from, failure_from, object_has_changed, outcome_is_unknown
    from workflows.proxy_background import Background
    from workflows.proxy_publishing import ObjectChanged, Publisher

_LONG_AWAIT_SECONDS = 900.0
_CREATE_DEADLINE_SECONDS = 60.0
"""How long a create whose worker was lost may still take effect."""


@workflow.defn(name="ProxyWorkflow")
class ProxyWorkflow:
    """One Proxy object, from its first sight until nothing of it is left."""

    @workflow.init
    def __init__(self, state: ProxyState) -> None:
        self._state = state
        if not state.chain_start:
            state.chain_start = int(workflow.now().timestamp() * 1000)
        self._publisher = Publisher(state)
        self._background = Background()
        self._reading: messages.ProxyReading | None = None
        self._observed = Observed()
        self._poked = True
        self._poked_uid = ""
        self._wake_at: float | None = None
        self._watch_not_before = 0.0
        self._awaited_too_long = False
        self._create_may_land_until = 0.0

    @workflow.signal
    def changed(self, poke: messages.Poke) -> None:
        """Somebody saw the object change, or wants the provider asked. An evaluated fingerprint costs nothing more."""
        self._poked_uid = poke.uid or self._poked_uid
        if poke.entry_hash and poke.entry_hash != self._state.entry_hash:
            self._state.entry_hash = poke.entry_hash
            self._poked = True
        if poke.look:
            self._ask_provider_again()
        elif not poke.fingerprint or poke.fingerprint != self._state.fingerprint:
            self._poked = True

    @workflow.signal(dynamic=True)
    def by_hand(self, name: str, _arguments: Sequence[RawValue]) -> None:
        """``retry``, with any input or none: try again now. Other names are ignored: a handler never raises."""
        if name == "retry":
            self._state.failed_cause = ""
            self._state.failure = None
            self._ask_provider_again()

    @workflow.run
    async def run(self, _state: ProxyState) -> None:
        """Act until nothing is left to look after."""
        while not await self._turn():
            pass

    async def _turn(self) -> bool:
        """See, decide, do one step and rest if it says so; True at the end of everything."""
        try:
            try:
                if self._poked or self._reading is None:
                    self._poked = False
                    self._reading = await activity_calls.read_proxy(self._reference())
                    await self._take_reading(self._reading)
                step = self._decide(self._reading)
                if step.action is Action.END:
                    return await self._end()
                if not await self._execute(step, self._reading):
                    return False
            except ActivityError as error:
                if object_has_changed(error):
                    raise ObjectChanged from error
                self._state.entry_hash = entry_hash_from(error) or self._state.entry_hash
                await self._fail(failure_from(error, self._provider_queue()))
            await self._rest()
        except ObjectChanged:
            self._poked = True
        return False

    async def _end(self) -> bool:
        """Tell the broker; True unless a poke came meanwhile, which must not be lost with the run."""
        self._background.stop_watching()
        self._background.stop_awaiting()
        uid = self._state.uid or self._poked_uid
        if uid:
            await self._publisher.tell_gone(uid)
        proxy_facts.forget_object(self._state)
        return not self._poked

    # ------------------------------------------------------------------ seeing

    async def _take_reading(self, reading: messages.ProxyReading) -> None:
        """Take in the object as it is now."""
        state, proxy = self._state, reading.proxy
        state.fingerprint = reading.fingerprint
        if proxy is None or (state.uid != proxy.uid and state.instance is not None):
            return
        if state.uid != proxy.uid:
            if state.uid:
                await self._publisher.tell_gone(state.uid)
            proxy_facts.adopt_object(state, proxy)
            state.fingerprint = reading.fingerprint
            self._observed = Observed()
        elif state.evaluated_generation != proxy.generation:
            self._forget_failures()
        state.status = proxy.status
        if reading.route is not None:
            state.route = reading.route
            state.entry_hash = state.entry_hash or reading.route.entry_hash
        retry = proxy.annotations.get(names.ANNOTATION_RETRY, "")
        if retry not in ("", state.handled_retry):
            state.handled_retry = retry
            self._ask_provider_again()

    def _ask_provider_again(self) -> None:
        self._observed = Observed()
        self._forget_failures()

    def _forget_failures(self) -> None:
        self._state.failures_in_a_row = 0
        self._wake_at = None

    def _decide(self, reading: messages.ProxyReading) -> Step:
        state = self._state
        desired = proxy_facts.desired(reading, state)
        if desired is not None and state.failed_cause and not desired.failure_latched:
            state.failed_cause = ""
            state.failure = None
        return deciding.decide(desired, proxy_facts.recorded(state, reading), self._observed)

    # ------------------------------------------------------------------ acting

    async def _execute(self, step: Step, reading: messages.ProxyReading) -> bool:
        """Do one step; True when there is nothing to do after it until something happens."""
        if step.action not in (Action.WATCH, Action.LOOK, Action.HOLD):
            self._background.stop_watching()
        if step.action is not Action.AWAIT:
            self._background.stop_awaiting()
        if step.action is Action.REMOVE_FORMER:
            await self._remove_former()
            return False
        proxy = reading.proxy
        if proxy is None:
            raise RuntimeError(f"{step.action} was decided on without an object")
        match step.action:
            case Action.ADD_FINALIZER:
                await self._publisher.publish(proxy, Provisioned.CREATING)
                self._reading = await activity_calls.add_finalizer(self._reference())
                await self._take_reading(self._reading)
            case Action.LOOK:
                await self._look(proxy)
            case Action.CREATE:
                await self._create(proxy)
            case Action.REPLACE | Action.DELETE:
                await self._remove(proxy, step)
            case Action.AWAIT:
                await self._await(proxy)
                return True
            case Action.WATCH:
                await self._watch(proxy, step)
                return True
            case Action.RELEASE:
                return await self._release(proxy)
            case _:
                await self._hold(proxy, step.reason or Provisioned.TRANSIENT_ERROR)
                return True
        return False

    async def _look(self, proxy: Proxy) -> None:
        record = self._state.instance
        if record is not None and record.ip:
            # A new verdict takes effect before the provider is asked, which may take long.
            await self._publisher.publish(proxy, Provisioned.RUNNING, self._running_message())
        answer = await activity_calls.look_for_instance(self._route(), self._query())
        self._take_answer(answer)
        if answer.instance is None and record is not None:
            self._state.instance = None
            proxy_facts.forget_health(self._state)
            await self._publisher.publish(proxy, Provisioned.INSTANCE_MISSING, f"{record.provider_id} is gone")

    async def _create(self, proxy: Proxy) -> None:
        await self._publisher.publish(proxy, Provisioned.CREATING, required=True)
        create = messages.CreateInstance(reference=self._reference(), provider=self._state.provider)
        try:
            self._take_answer(await activity_calls.create_instance(self._route(), create))
        except ActivityError as error:
            if outcome_is_unknown(error):
                self._create_may_land_until = self._now() + _CREATE_DEADLINE_SECONDS
            self._observed = Observed()
            raise
        await self._record_spec_hash(proxy)

    async def _await(self, proxy: Proxy) -> None:
        await self._record_spec_hash(proxy)
        message = "still coming after 15 minutes; nothing is deleted for it" if self._awaited_too_long else ""
        await self._publisher.publish(proxy, Provisioned.PROVISIONING, message)
        if not self._background.is_awaiting:
            self._background.await_instance(self._route(), self._query())
            self._wake_at = None if self._awaited_too_long else self._now() + _LONG_AWAIT_SECONDS

    async def _watch(self, proxy: Proxy, step: Step) -> None:
        if self._state.managed:
            await self._record_spec_hash(proxy)
        await self._publisher.publish(proxy, step.reason or Provisioned.RUNNING, self._running_message())
        self._keep_watching(proxy)

    def _keep_watching_what_runs(self, proxy: Proxy) -> None:
        """Go on probing a running instance while its provider cannot be asked or has refused something."""
        instance = self._state.instance
        if instance is not None and instance.ip and not proxy.deleting:
            self._keep_watching(proxy)

    def _keep_watching(self, proxy: Proxy) -> None:
        """Have the proxy probed where it runs; the running watch goes on if it is the right one."""
        state = self._state
        wanted = proxy_facts.wanted_watch(state, proxy)
        if self._background.watches(wanted):
            return
        if self._now() < self._watch_not_before:
            self._wake_at = min(self._watch_not_before, self._wake_at or self._watch_not_before)
            return
        state.watches += 1
        self._background.watch_health(self._probe_queue(), wanted)

    async def _remove(self, proxy: Proxy, step: Step) -> None:
        """Stop handing it out, write why, delete, and wait until it is proven gone."""
        state = self._state
        if state.instance is None:
            raise RuntimeError("an instance was observed and none is on record")
        state.instance = dataclasses.replace(state.instance, ip="")
        proxy_facts.forget_health(state)
        await self._publisher.publish(proxy, step.reason or Provisioned.DELETING, required=True)
        await self._remove_instance(state.instance, replacing=step.action is Action.REPLACE)
        state.instance = None
        self._observed = Observed()

    async def _remove_former(self) -> None:
        """Remove the instance of an object that is gone or was recreated, then start afresh."""
        state = self._state
        await self._publisher.tell_gone(state.uid)
        if state.instance is not None and state.route is not None:
            await self._remove_instance(state.instance, replacing=False)
        elif state.instance is not None:
            workflow.logger.warning(
                "instance %s is left behind: its object is gone and its provider is not configured",
                state.instance.provider_id,
            )
        proxy_facts.forget_object(state)
        self._observed = Observed()
        self._poked = True

    async def _remove_instance(self, instance: InstanceRecord, *, replacing: bool) -> None:
        remove = messages.RemoveInstance(
            reference=self._reference(),
            provider=self._state.provider,
            provider_id=instance.provider_id,
            incarnation=instance.incarnation,
            replacing=replacing,
        )
        _require(await activity_calls.remove_instance(self._route(), remove))

    async def _release(self, proxy: Proxy) -> bool:
        if self._now() < self._create_may_land_until:
            await self._publisher.publish(proxy, Provisioned.DELETING, "a create without an answer may still land")
            self._wake_at = self._create_may_land_until
            return True
        await self._publisher.publish(proxy, Provisioned.DELETING)
        await activity_calls.release_finalizers(self._reference())
        self._state.instance = None
        self._poked = True
        return False

    async def _hold(self, proxy: Proxy, reason: Provisioned) -> None:
        state, reading = self._state, self._reading
        if reason is Provisioned.PERMANENT_ERROR:
            before = state.status.condition("Provisioned")
            kept = Failure(reason=reason, message=before.message if before is not None else "")
            if before is not None and before.reason == Provisioned.NAME_TAKEN:
                kept = dataclasses.replace(kept, reason=Provisioned.NAME_TAKEN)
            shown = state.failure or kept
            await self._publisher.publish(proxy, shown.reason, shown.message)
            self._keep_watching_what_runs(proxy)
            return
        message = f'provider "{proxy.spec.provider}" is not in the providers config'
        if reason is Provisioned.CLOUD_INIT_ERROR and reading is not None:
            message = reading.cloud_init_error
        await self._fail(Failure(reason=reason, message=message))

    async def _fail(self, failure: Failure) -> None:
        """Show a failure and plan the next try."""
        state, reading = self._state, self._reading
        proxy = reading.proxy if reading is not None else None
        state.failure = failure
        state.failures_in_a_row += 1
        wait = failures.wait_after(failure, state.failures_in_a_row)
        if failure.latched and (proxy is None or proxy.deleting):
            wait = failures.SLOW_WAIT_SECONDS
        elif failure.latched and proxy is not None and reading is not None:
            state.failed_cause = failures.failed_cause(
                proxy.generation, reading.spec_hash, state.entry_hash, state.handled_retry
            )
        self._wake_at = None if wait is None else self._now() + wait
        if proxy is None or proxy.uid != state.uid:
            return
        await self._publisher.publish(proxy, failure.reason, failure.message)
        self._keep_watching_what_runs(proxy)

    def _take_answer(self, answer: messages.InstanceAnswer) -> None:
        """Take in what the provider said; another incarnation or address starts without a verdict."""
        state, instance = self._state, answer.instance
        state.failure = None
        self._forget_failures()
        self._awaited_too_long = False
        state.entry_hash = answer.entry_hash or state.entry_hash
        if instance is None:
            self._observed = Observed(presence=Presence.ABSENT)
            return
        presence = deciding.PRESENCE_OF_STATE[instance.state]
        self._observed = Observed(presence=presence, spec_hash=instance.spec_hash)
        before = state.instance
        ip = instance.ip if presence is Presence.RUNNING else ""
        if before is not None and (
            before.incarnation not in ("", instance.incarnation) or (before.ip and ip and before.ip != ip)
        ):
            proxy_facts.forget_health(state)
        state.instance = InstanceRecord(
            provider_id=instance.provider_id, incarnation=instance.incarnation, spec_hash=instance.spec_hash, ip=ip
        )

    async def _record_spec_hash(self, proxy: Proxy) -> None:
        """Keep the annotation equal to the instance's own mark; where marks prove nothing, adopt the present hash."""
        reading, instance = self._reading, self._state.instance
        if reading is None or instance is None:
            return
        recorded = proxy.annotations.get(names.ANNOTATION_SPEC_HASH, "")
        marks = (instance.spec_hash, recorded, reading.spec_hash)
        wanted = next((mark for mark in marks if spec_hash.is_comparable(mark)), "")
        if not wanted or wanted == recorded:
            return
        write = messages.SpecHashWrite(reference=self._reference(), spec_hash=wanted)
        _require(await activity_calls.record_spec_hash(write))
        annotated = dataclasses.replace(proxy, annotations={**proxy.annotations, names.ANNOTATION_SPEC_HASH: wanted})
        self._reading = dataclasses.replace(reading, proxy=annotated)

    # ------------------------------------------------------------------ resting

    async def _rest(self) -> None:
        """Wait for news, or start a new run where the history has become long."""
        if self._publisher.status_is_pending:
            soon = self._now() + failures.FIRST_WAIT_SECONDS
            self._wake_at = soon if self._wake_at is None else min(soon, self._wake_at)
        if workflow.info().is_continue_as_new_suggested() and not self._has_news():
            workflow.continue_as_new(self._state)
        left = None if self._wake_at is None else max(0.0, self._wake_at - self._now())
        try:
            await workflow.wait_condition(self._has_news, timeout=left)
        except TimeoutError:
            self._wake_up()
        await self._take_results()

    def _has_news(self) -> bool:
        wants_provider = (
            self._observed.presence is Presence.UNKNOWN
            and self._wake_at is None
            and self._state.managed
            and not self._state.failed_cause
        )
        return self._poked or self._background.has_news() or wants_provider

    def _wake_up(self) -> None:
        self._wake_at = None
        if self._background.is_awaiting:
            self._awaited_too_long = True
        elif self._state.failure is not None:
            self._observed = Observed()
            self._poked = True

    async def _take_results(self) -> None:
        """Take in what ended in the background."""
        awaited = self._background.take_awaited()
        if awaited is not None:
            try:
                self._take_answer(await awaited)
            except ActivityError as error:
                self._observed = Observed()
                await self._fail(failure_from(error, self._provider_queue()))
        watched = self._background.take_watched()
        if watched is not None:
            try:
                self._take_report(await watched)
            except ActivityError as error:
                self._note_nobody_probes(failure_from(error, self._probe_queue()))

    def _take_report(self, report: messages.HealthReport) -> None:
        state = self._state
        state.health_state = report.state
        state.health = proxy_facts.health_of(report.change)
        if state.health.status == "False" and state.managed:
            self._observed = Observed()

    def _note_nobody_probes(self, failure: Failure) -> None:
        """Without anyone probing there is no verdict, and the proxy is not handed out."""
        proxy_facts.forget_health(self._state)
        self._state.health = Health(reason=str(failure.reason), message=failure.message)
        self._watch_not_before = self._now() + failures.FIRST_WAIT_SECONDS

    # ------------------------------------------------------------------ small things

    def _running_message(self) -> str:
        reading = self._reading
        if reading is None or not reading.cloud_init_error:
            return ""
        return f"it keeps running on what it was made from: {reading.cloud_init_error}"

    def _reference(self) -> messages.ProxyReference:
        state = self._state
        return messages.ProxyReference(namespace=state.namespace, name=state.name, uid=state.uid)

    def _query(self) -> messages.InstanceQuery:
        state = self._state
        provider_id = state.instance.provider_id if state.instance is not None else ""
        return messages.InstanceQuery(provider=state.provider, uid=state.uid, provider_id=provider_id)

    def _route(self) -> messages.ProviderRoute:
        if self._state.route is None:
            raise RuntimeError("a provider call was decided on without a provider")
        return self._state.route

    def _provider_queue(self) -> str:
        return self._state.route.task_queue if self._state.route is not None else names.QUEUE_CONTROL

    def _probe_queue(self) -> str:
        route = self._state.route
        return route.probe_task_queue if self._state.managed and route is not None else names.QUEUE_PROBES

    @staticmethod
    def _now() -> float:
        return workflow.now().timestamp()


def _require(done: bool) -> None:
    if not done:
        raise ObjectChanged
