"""The life of one Proxy: a level-triggered loop over ``model.decide``.

A poke makes the workflow read the object and act on what it finds. What lasts (waiting for an instance, probing) runs
as an activity that ends only with news, so an idle proxy adds nothing to the history.
"""

from collections.abc import Sequence

from temporalio import workflow
from temporalio.common import RawValue
from temporalio.exceptions import ActivityError

with workflow.unsafe.imports_passed_through():
    from model import messages, proxy_facts, proxy_replacement
    from model.decide import Action, Observed, Presence, Step
    from model.failures import Failure
    from model.proxy_state import ProxyState
    from model.reasons import Provisioned
    from workflows import proxy_steps
    from workflows.activity_failures import entry_hash_from, failure_from, object_has_changed
    from workflows.proxy_failing import fail
    from workflows.proxy_pace import Wake
    from workflows.proxy_publishing import ObjectChanged, ObjectDisputed
    from workflows.proxy_run import Run

_WAITS_FOR_THE_NEXT_TRY = (
    Action.ADD_FINALIZER,
    Action.LOOK,
    Action.CREATE,
    Action.REPLACE,
    Action.DELETE,
    Action.REMOVE_FORMER,
)


@workflow.defn(name="ProxyWorkflow")
class ProxyWorkflow:
    """One Proxy object, from its first sight until nothing of it is left."""

    @workflow.init
    def __init__(self, state: ProxyState) -> None:
        if not state.chain_start:
            state.chain_start = int(workflow.now().timestamp() * 1000)
        self._state = state
        self._run = Run(state)
        self._poked_uid = ""

    @workflow.signal
    def changed(self, poke: messages.Poke) -> None:
        """Somebody saw the object change, or wants the provider asked. An evaluated fingerprint costs nothing more."""
        run, state = self._run, self._state
        self._poked_uid = poke.uid or self._poked_uid
        if poke.entry_hash and poke.entry_hash != state.entry_hash:
            state.entry_hash = poke.entry_hash
            run.poked = True
        if poke.look:
            run.ask_provider_again()
        if poke.fingerprint != state.fingerprint and (poke.fingerprint or not poke.look):
            run.poked = True

    @workflow.signal(dynamic=True)
    def by_hand(self, name: str, _arguments: Sequence[RawValue]) -> None:
        """``retry`` (try again now) and ``rotate`` (make another instance), with any input or none.

        Other names are ignored: a handler never raises.
        """
        if name == "retry":
            self._run.retry()
        elif name == "rotate" and proxy_replacement.ask_for_rotation(self._state):
            self._run.poked = True

    @workflow.run
    async def run(self, _state: ProxyState) -> None:
        """Act until nothing is left to look after."""
        while not await self._turn():
            if workflow.info().is_continue_as_new_suggested():
                # The new run reads the object and asks the provider first, so nothing that came in is lost.
                workflow.continue_as_new(self._state)

    async def _turn(self) -> bool:
        """See, decide, do one step and rest if it says so; True at the end of everything."""
        run = self._run
        step, reading = Step(action=Action.LOOK), run.reading
        asked_before, retried_before = run.asked_again, run.retried
        try:
            try:
                reading = await run.read() if run.poked or run.reading is None else run.reading
                step = self._decide(reading)
                asked_before, retried_before = run.asked_again, run.retried
                if step.action is Action.END:
                    return await self._end()
                if step.action in _WAITS_FOR_THE_NEXT_TRY and run.pace.is_set(Wake.RETRY):
                    await proxy_steps.wait_out(run)
                else:
                    rests = await proxy_steps.execute(run, step)
                    if run.disputes.end(step.action):
                        run.forget_failure()
                        return False
                    if not rests:
                        return False
            except ActivityError as error:
                if object_has_changed(error):
                    await self._take_dispute(ObjectDisputed(), step.action)
                else:
                    await self._take_failure(error, step.action, reading)
                if run.asked_again != asked_before:
                    # Somebody knows that it may go better now than when this step began.
                    if run.retried != retried_before:
                        self._state.failed_cause = ""
                    run.observed = Observed()
                    run.forget_retry()
            except ObjectDisputed as dispute:
                await self._take_dispute(dispute, step.action)
            await self._rest()
        except ObjectChanged:
            run.poked = True
        return False

    async def _take_failure(
        self, error: ActivityError, action: Action, decided_for: messages.ProxyReading | None
    ) -> None:
        """Show the failure of a step and plan the next try."""
        run = self._run
        self._state.entry_hash = entry_hash_from(error) or self._state.entry_hash
        failure = failure_from(error, run.provider_queue())
        await fail(run, failure, action, evaluated=action is not Action.LOOK, decided_for=decided_for)

    async def _take_dispute(self, dispute: ObjectDisputed, action: Action) -> None:
        """Where the object was read anew and is the same, show what the matter is and plan the next try.

        Raises:
            ObjectChanged: It has to be read anew first.
        """
        run, state = self._run, self._state
        times = run.disputes.add(action, state.fingerprint)
        if times == 1:
            raise dispute
        # The first was no failure, and what succeeds between two of them is none of their business.
        state.failures_in_a_row = times - 2
        run.observed = Observed()
        try:
            failure = Failure(reason=Provisioned.TRANSIENT_ERROR, message=str(dispute))
            await fail(run, failure, action, evaluated=False)
        except ObjectDisputed:
            workflow.logger.warning("the status cannot say so: %s", dispute)

    def _decide(self, reading: messages.ProxyReading) -> Step:
        state = self._state
        desired = proxy_facts.desired(reading, state, self._run.now())
        if desired is not None and state.failed_cause and not desired.failure_latched:
            state.failed_cause = ""
            state.failure, state.failed_action = None, ""
        step = self._run.next_step()
        if step.action is not Action.HOLD and state.failed_action == Action.HOLD:
            state.failure, state.failed_action = None, ""
            self._run.forget_failures()
        return step

    async def _end(self) -> bool:
        """Tell the broker; True unless a poke came meanwhile, which must not be lost with the run."""
        run, state = self._run, self._state
        run.background.stop_watching()
        run.background.stop_awaiting()
        proxy = run.reading.proxy if run.reading is not None else None
        if proxy is not None and proxy.uid == state.uid:
            # Somebody else's finalizer still holds the object; what it says must be true until then.
            await run.publish(proxy, Provisioned.DELETING)
        uid = state.uid or self._poked_uid
        if uid:
            await run.publisher.tell_gone(uid)
        proxy_facts.forget_object(state)
        return not run.poked

    # ------------------------------------------------------------------ resting

    async def _rest(self) -> None:
        """Wait for news, and take it in."""
        run = self._run
        try:
            await workflow.wait_condition(self._has_news, timeout=run.pace.seconds_left(run.now()))
        except TimeoutError:
            for wake in run.pace.take_due(run.now()):
                self._wake_up(wake)
        await self._take_awaited()
        await run.take_report()

    def _has_news(self) -> bool:
        run, state = self._run, self._state
        proxy = run.reading.proxy if run.reading is not None else None
        wants_provider = (
            run.observed.presence is Presence.UNKNOWN
            and not run.pace.is_set(Wake.RETRY)
            and state.managed
            and not state.failed_cause
            and not (proxy is not None and proxy.is_paused)
        )
        return run.poked or run.background.has_news() or wants_provider

    def _wake_up(self, wake: Wake) -> None:
        run, state = self._run, self._state
        if wake is Wake.LONG_AWAIT:
            run.awaited_too_long = run.background.is_awaiting
        elif wake is Wake.AGE:
            run.poked = True
        elif wake is Wake.RETRY:
            run.poked = True
            if state.failed_action != Action.HOLD:
                run.observed = Observed()

    async def _take_awaited(self) -> None:
        """Take in that an instance runs, stopped or is gone, or why that cannot be told."""
        run = self._run
        awaited = run.background.take_awaited()
        if awaited is None:
            return
        try:
            run.take_answer(await awaited, Action.AWAIT)
        except ActivityError as error:
            run.observed = Observed()
            await fail(run, failure_from(error, run.provider_queue()), Action.AWAIT, evaluated=False)
