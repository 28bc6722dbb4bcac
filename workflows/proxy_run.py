"""What the steps of a Proxy's workflow share: the object as read, the instance as observed, the pace, and the news."""

from temporalio import workflow
from temporalio.exceptions import ActivityError

with workflow.unsafe.imports_passed_through():
    from model import decide as deciding
    from model import failures, messages, names, proxy_facts, proxy_replacement
    from model.decide import Action, Observed, Presence, Step
    from model.failures import Failure
    from model.proxy import Proxy
    from model.proxy_state import InstanceRecord, ProxyState
    from model.reasons import Provisioned
    from model.status import Health
    from workflows import activity_calls
    from workflows.activity_failures import failure_from
    from workflows.proxy_background import Background
    from workflows.proxy_disputes import Disputes
    from workflows.proxy_pace import Pace, Wake
    from workflows.proxy_publishing import Publisher

_BROKER_WAIT_SECONDS = 300.0


class Run:
    """One run of the workflow.

    Attributes:
        state: What outlives the run.
        reading: The object as read last; None before the first reading.
        observed: What the provider said last.
        poked: Whether the object has to be read again.
        asked_again: How often the provider was to be asked again; whoever asks it compares.
        retried: How often a human wanted a retry, which lifts a permanent failure too.
        awaited_too_long: Whether an instance has been coming for longer than the status may keep silent about.
    """

    def __init__(self, state: ProxyState) -> None:
        self.state = state
        self.publisher = Publisher(state)
        self.background = Background()
        self.pace = Pace()
        self.disputes = Disputes()
        self.reading: messages.ProxyReading | None = None
        self.observed = Observed()
        self.poked = True
        self.asked_again = 0
        self.retried = 0
        self.awaited_too_long = False

    # ------------------------------------------------------------------ seeing

    async def read(self) -> messages.ProxyReading:
        """Read the object, and take it in."""
        self.poked = False
        self.reading = await activity_calls.read_proxy(self.reference())
        await self.take_reading(self.reading)
        return self.reading

    async def take_reading(self, reading: messages.ProxyReading) -> None:
        """Take in the object as it is now; one with another uid only when nothing of the former is left."""
        state, proxy = self.state, reading.proxy
        state.fingerprint = reading.fingerprint
        self.publisher.shows_search_attributes = reading.search_attributes
        if proxy is None or (state.uid != proxy.uid and state.instance is not None):
            return
        if state.uid != proxy.uid:
            if state.uid:
                await self.publisher.tell_gone(state.uid)
            proxy_facts.adopt_object(state, proxy)
            state.fingerprint = reading.fingerprint
            if proxy_facts.may_have_been_created(proxy):
                state.create_may_land_until = self.now() + failures.CREATE_DEADLINE_SECONDS
            self.observed = Observed()
        elif (state.seen_generation, state.seen_deleting) != (proxy.generation, proxy.deleting):
            self.forget_failures()
        state.seen_generation, state.seen_deleting = proxy.generation, proxy.deleting
        state.status = proxy.status
        if reading.route is not None:
            state.route = reading.route
            state.entry_hash = state.entry_hash or reading.route.entry_hash
        proxy_replacement.take_rotation(state, proxy)
        retry = proxy.annotations.get(names.ANNOTATION_RETRY, "")
        if retry not in ("", state.handled_retry):
            state.handled_retry = retry
            self.retry()

    def ask_provider_again(self) -> None:
        """Forget what the provider said, and how often something failed."""
        self.asked_again += 1
        self.observed = Observed()
        self.forget_failures()

    def retry(self) -> None:
        """A human wants it tried again, whatever stands against it."""
        self.retried += 1
        self.state.failed_cause = ""
        self.ask_provider_again()

    def forget_failures(self) -> None:
        """Try again at once: something is different now."""
        self.forget_retry()
        self.state.create_not_before = 0.0

    def forget_failure(self) -> None:
        """The step that failed has succeeded, or is not wanted any more."""
        self.state.failure, self.state.failed_action = None, ""
        self.forget_retry()

    def forget_retry(self) -> None:
        """Nothing has to be waited out any more."""
        self.state.failures_in_a_row = 0
        self.pace.clear(Wake.RETRY)

    def take_answer(self, answer: messages.InstanceAnswer, action: Action) -> None:
        """Take in what the provider said of the instance.

        Args:
            answer: What it said.
            action: The step that asked. A failure is over when the step that failed succeeds, or the instance runs.
        """
        state, instance = self.state, answer.instance
        is_removal = state.failed_action in (Action.REPLACE, Action.DELETE)
        is_over = is_removal if instance is None else instance.ip and not is_removal
        if action == state.failed_action or is_over:
            self.forget_failure()
        state.entry_hash = answer.entry_hash or state.entry_hash
        before = state.instance
        if instance is not None and (before is None or before.incarnation not in ("", instance.incarnation)):
            # Another one: neither has it passed a probe, nor has it been coming for long.
            state.proven = False
            self.forget_wait()
        if instance is None:
            self.forget_wait()
            if before is not None:
                self._note_gone(before)
            self.observed = Observed(presence=Presence.ABSENT)
            return
        presence = deciding.PRESENCE_OF_STATE[instance.state]
        if presence is not Presence.COMING:
            self.forget_wait()
        if action is Action.CREATE:
            # One that was taken for ended is there again: should it end again, that counts.
            state.ended_incarnation = ""
        if presence is Presence.STOPPED:
            proxy_facts.note_end(state, instance.incarnation, self.now())
        self.observed = Observed(presence=presence, spec_hash=instance.spec_hash, incarnation=instance.incarnation)
        state.instance = InstanceRecord(
            provider_id=instance.provider_id,
            incarnation=instance.incarnation,
            spec_hash=instance.spec_hash,
            ip=instance.ip if presence is Presence.RUNNING else "",
            created_at=instance.created_at.timestamp(),
            message=instance.message if presence is Presence.COMING else "",
        )

    def forget_wait(self) -> None:
        """Nothing has been coming for long."""
        self.awaited_too_long = False
        self.pace.clear(Wake.LONG_AWAIT)

    def _note_gone(self, instance: InstanceRecord) -> None:
        """Take in that the instance on record is no more; a rotation that was asked for is met by that."""
        state = self.state
        proxy_facts.note_end(state, instance.incarnation, self.now())
        if state.replacing is None:
            proxy_replacement.settle_rotation(state)
        state.instance = state.replacing = None
        proxy_facts.forget_health(state)

    def next_step(self) -> Step:
        """Return what is to be done next, going by the object as read last.

        Raises:
            RuntimeError: It was not read yet.
        """
        reading, state = self.reading, self.state
        if reading is None:
            raise RuntimeError("a step was to be decided on without a reading")
        desired = proxy_facts.desired(reading, state, self.now())
        return deciding.decide(desired, proxy_facts.recorded(state, reading), self.observed)

    async def take_report(self) -> None:
        """Take in the verdict of an ended watch, if there is one."""
        watched = self.background.take_watched()
        if watched is None:
            return
        state = self.state
        try:
            report = await watched
        except ActivityError as error:
            self._note_nobody_probes(failure_from(error, self.probe_queue()))
            return
        state.health_state = report.state
        state.health = proxy_facts.health_of(report.change)
        if state.health.status == "True":
            state.proven, state.early_ends = True, 0
        if state.health.status == "False" and state.managed:
            self.observed = Observed()

    def _note_nobody_probes(self, failure: Failure) -> None:
        """Without anyone probing there is no verdict and no leasing; the queue may be another one by now."""
        state = self.state
        subject = state.health_subject
        proxy_facts.forget_health(state)
        state.health = Health(reason=str(failure.reason), message=failure.message)
        state.health_subject = subject
        self.pace.set(Wake.WATCH, self.now() + failures.FIRST_WAIT_SECONDS)
        self.poked = True

    # ------------------------------------------------------------------ telling

    async def publish(
        self, proxy: Proxy, reason: Provisioned, message: str = "", *, required: bool = False, evaluated: bool = True
    ) -> None:
        """Make status and broker say what is so; a verdict about something else than what runs now is dropped first."""
        state = self.state
        subject = proxy_facts.health_subject(state, proxy)
        if subject and subject != state.health_subject:
            if state.health_subject:
                proxy_facts.forget_health(state)
                self.background.stop_watching()
            state.health_subject = subject
        await self.publisher.publish(proxy, reason, message, required=required, evaluated=evaluated)
        if self.publisher.status_is_pending:
            self.pace.set(Wake.STATUS, self.now() + failures.FIRST_WAIT_SECONDS)
        if state.not_taken_on:
            self.pace.set(Wake.BROKER, self.now() + _BROKER_WAIT_SECONDS)

    async def publish_step(
        self, proxy: Proxy, reason: Provisioned, message: str = "", *, required: bool = False, evaluated: bool = True
    ) -> None:
        """Publish what a step is about, or the failure that stands: a retry loop says the same all the time."""
        failure = self.state.failure
        if failure is not None:
            reason, message = failure.reason, failure.message
        await self.publish(proxy, reason, message, required=required, evaluated=evaluated)

    # ------------------------------------------------------------------ what lasts

    def plan_replacement(self, proxy: Proxy) -> None:
        """Wake up when the instance reaches its maximum age."""
        ages_at = proxy_replacement.replace_at(self.state, proxy)
        # While none can be made in its place it stays, however old: what makes the cloud-init readable pokes.
        if ages_at is None or (self.reading is not None and not self.reading.spec_hash):
            self.pace.clear(Wake.AGE)
        else:
            self.pace.set(Wake.AGE, ages_at)

    def keep_watching_what_runs(self, proxy: Proxy) -> None:
        """Go on probing a running instance while its provider cannot be asked or has refused something."""
        if self.state.runs and not proxy.deleting:
            self.keep_watching(proxy)

    def keep_watching(self, proxy: Proxy) -> None:
        """Have the proxy probed where it runs; the running watch goes on if it is the right one."""
        state = self.state
        wanted = proxy_facts.wanted_watch(state, proxy)
        if self.background.watches(wanted) or self.pace.is_set(Wake.WATCH):
            return
        state.watches += 1
        self.background.watch_health(self.probe_queue(), wanted)

    # ------------------------------------------------------------------ small things

    def reference(self) -> messages.ProxyReference:
        """The object."""
        state = self.state
        return messages.ProxyReference(namespace=state.namespace, name=state.name, uid=state.uid)

    def query(self) -> messages.InstanceQuery:
        """The instance."""
        state = self.state
        provider_id = state.instance.provider_id if state.instance is not None else ""
        message = state.instance.message if state.instance is not None else ""
        return messages.InstanceQuery(
            provider=state.provider, uid=state.uid, provider_id=provider_id, known_message=message
        )

    def route(self) -> messages.ProviderRoute:
        """Where the provider is served."""
        if self.state.route is None:
            raise RuntimeError("a provider call was decided on without a provider")
        return self.state.route

    def provider_queue(self) -> str:
        """The queue of the provider's calls."""
        return self.state.route.task_queue if self.state.route is not None else names.QUEUE_CONTROL

    def probe_queue(self) -> str:
        """The queue of the probes."""
        route = self.state.route
        return route.probe_task_queue if self.state.managed and route is not None else names.QUEUE_PROBES

    def running_message(self) -> str:
        """What there is to say about an instance that runs."""
        if self.reading is None or not self.reading.cloud_init_error:
            return ""
        return f"it keeps running on what it was made from: {self.reading.cloud_init_error}"

    @staticmethod
    def now() -> float:
        """The workflow's time, in epoch seconds."""
        return workflow.now().timestamp()
