"""The steps that ``model.decide`` names, as a Proxy's workflow does them."""

import dataclasses

from temporalio import workflow
from temporalio.exceptions import ActivityError

with workflow.unsafe.imports_passed_through():
    from model import failures, messages, names, proxy_facts, spec_hash
    from model.decide import Action, Observed, Presence, Step
    from model.failures import Failure
    from model.proxy import Proxy
    from model.reasons import Provisioned
    from workflows import activity_calls, proxy_replacing
    from workflows.activity_failures import certainly_made_nothing, failure_from
    from workflows.proxy_failing import fail
    from workflows.proxy_pace import Wake
    from workflows.proxy_publishing import ObjectDisputed
    from workflows.proxy_run import Run
    from workflows.proxy_waiting import wait_for_create, wait_unless_overtaken

_LONG_AWAIT_SECONDS = 900.0


async def execute(run: Run, step: Step) -> bool:
    """Do one step; True when there is nothing to do after it until something happens."""
    if step.action not in (Action.WATCH, Action.LOOK, Action.HOLD):
        run.background.stop_watching()
    if step.action is not Action.AWAIT:
        run.background.stop_awaiting()
    if step.action not in (Action.REPLACE, Action.LOOK, Action.HOLD, Action.ADD_FINALIZER):
        # A replacement that was begun is not wanted any more, or over.
        run.state.replacing = None
    if step.action is Action.REMOVE_FORMER:
        await _remove_former(run)
        return False
    proxy = run.reading.proxy if run.reading is not None else None
    if proxy is None:
        raise RuntimeError(f"{step.action} was decided on without an object")
    match step.action:
        case Action.ADD_FINALIZER:
            await _add_finalizer(run, proxy)
        case Action.LOOK:
            await _look(run, proxy)
        case Action.CREATE:
            return await _create(run, proxy)
        case Action.REPLACE:
            await proxy_replacing.replace(run, proxy, step)
        case Action.DELETE:
            await proxy_replacing.delete(run, proxy, step)
        case Action.AWAIT:
            await _await(run, proxy)
            return True
        case Action.WATCH:
            await _watch(run, proxy, step)
            return True
        case Action.RELEASE:
            return await _release(run, proxy)
        case _:
            await _hold(run, proxy, step.reason or Provisioned.TRANSIENT_ERROR)
            return True
    return False


async def wait_out(run: Run) -> None:
    """Until a failed step may be tried again: show why, with the verdict of now, and keep what runs probed."""
    proxy = run.reading.proxy if run.reading is not None else None
    if proxy is not None and proxy.uid == run.state.uid and run.state.failure is not None:
        await run.publish_step(proxy, Provisioned.TRANSIENT_ERROR, evaluated=False)
        run.keep_watching_what_runs(proxy)


async def _add_finalizer(run: Run, proxy: Proxy) -> None:
    await run.publish_step(proxy, Provisioned.CREATING)
    run.reading = await activity_calls.add_finalizer(run.reference())
    await run.take_reading(run.reading)
    now = run.reading.proxy
    if now is not None and now.uid == proxy.uid and not now.deleting and names.FINALIZER not in now.finalizers:
        raise ObjectDisputed(f"the finalizer {names.FINALIZER} does not stay on the object; what takes it off?")


async def _look(run: Run, proxy: Proxy) -> None:
    state, record = run.state, run.state.instance
    if proxy.deleting:
        await run.publish_step(proxy, Provisioned.DELETING, evaluated=False)
    elif record is not None and record.ip and not state.is_replacing:
        # A new verdict takes effect before the provider is asked, which may take long.
        await run.publish_step(proxy, Provisioned.RUNNING, run.running_message(), evaluated=False)
    asked_before = run.asked_again
    looking = activity_calls.start_looking(run.route(), run.query())
    try:
        await wait_unless_overtaken(run, looking)
        run.take_answer(await looking, Action.LOOK)
    except ActivityError as error:
        if not (proxy.deleting and _deletion_goes_on(run, failure_from(error, run.provider_queue()))):
            raise
        return
    if run.observed.presence is Presence.ABSENT and record is not None:
        await run.publish(proxy, Provisioned.INSTANCE_MISSING, f"{record.provider_id} is gone")
    elif run.observed.presence is not Presence.ABSENT:
        state.create_may_land_until = 0.0
    if run.asked_again != asked_before:
        # Somebody wants to know what has become of it since this look began.
        run.observed = Observed()


def _deletion_goes_on(run: Run, failure: Failure) -> bool:
    """Take a failed look of an object being deleted for an answer where it is one."""
    state = run.state
    if failure.reason is Provisioned.NAME_TAKEN:
        # What carries that name is somebody else's: nothing of ours is there.
        state.instance = None
        run.observed = Observed(presence=Presence.ABSENT)
        return True
    if failure.reason is Provisioned.PERMANENT_ERROR and state.instance is not None:
        run.observed = Observed(presence=Presence.STOPPED)
        return True
    if failure.reason is Provisioned.ACCESS_DENIED and state.instance is None and not state.create_sent:
        run.observed = Observed(presence=Presence.ABSENT)
        return True
    return False


async def _create(run: Run, proxy: Proxy) -> bool:
    state = run.state
    if run.now() < state.create_not_before:
        ended = f"{state.early_ends} instances in a row" if state.early_ends > 1 else "the last instance"
        message = f"{ended} ended before passing a probe; the next one waits"
        await run.publish(proxy, Provisioned.INSTANCE_STOPPED, message)
        run.pace.set(Wake.RETRY, state.create_not_before)
        return True
    await run.publish_step(proxy, Provisioned.CREATING, required=True)
    state.create_sent = True
    create = messages.CreateInstance(reference=run.reference(), provider=state.provider)
    creating = activity_calls.start_creating(run.route(), create)
    try:
        run.take_answer(await wait_for_create(run, creating, proxy), Action.CREATE)
    except ActivityError as error:
        if not certainly_made_nothing(error):
            state.create_may_land_until = run.now() + failures.CREATE_DEADLINE_SECONDS
        run.observed = Observed()
        run.poked = True
        raise
    state.create_may_land_until = 0.0
    await _record_spec_hash(run, proxy)
    return False


async def _await(run: Run, proxy: Proxy) -> None:
    await _record_spec_hash(run, proxy)
    said = run.state.instance.message if run.state.instance is not None else ""
    late = "still coming after 15 minutes; nothing is deleted for it" if run.awaited_too_long else ""
    await run.publish_step(proxy, Provisioned.PROVISIONING, ": ".join(part for part in (late, said) if part))
    run.background.await_instance(run.route(), run.query())
    if not run.awaited_too_long and not run.pace.is_set(Wake.LONG_AWAIT):
        run.pace.set(Wake.LONG_AWAIT, run.now() + _LONG_AWAIT_SECONDS)


async def _watch(run: Run, proxy: Proxy, step: Step) -> None:
    # What runs as it should has left every failure behind, that of a replacement nobody wants any more included.
    run.state.failure, run.state.failed_action = None, ""
    run.forget_retry()
    if run.state.managed:
        await _record_spec_hash(run, proxy)
    run.plan_replacement(proxy)
    await run.publish(proxy, step.reason or Provisioned.RUNNING, run.running_message())
    run.keep_watching(proxy)


async def _remove_former(run: Run) -> None:
    """Remove the instance of an object that is gone or was recreated, then start afresh."""
    state, reading = run.state, run.reading
    await run.publisher.tell_gone(state.uid)
    proxy = reading.proxy if reading is not None else None
    if state.route is None and proxy is not None and reading is not None and proxy.spec.provider == state.provider:
        state.route = reading.route
    if state.instance is not None and state.route is not None:
        await proxy_replacing.remove_instance(run, state.instance, replacing=False)
    elif state.instance is not None:
        workflow.logger.warning(
            "instance %s is left behind: its object is gone and its provider is not configured",
            state.instance.provider_id,
        )
    proxy_facts.forget_object(state)
    run.ask_provider_again()
    run.poked = True


async def _release(run: Run, proxy: Proxy) -> bool:
    state = run.state
    if run.now() < state.create_may_land_until and not proxy.skips_cleanup:
        await run.publish(proxy, Provisioned.DELETING, "a create without an answer may still take effect")
        run.observed = Observed()
        run.pace.set(Wake.RETRY, state.create_may_land_until)
        return True
    if state.failed_action == Action.RELEASE:
        await run.publish_step(proxy, Provisioned.DELETING)
    else:
        await run.publish(proxy, Provisioned.DELETING)
    if proxy.skips_cleanup and proxy.spec.managed:
        await proxy_replacing.abandon(run)
    await activity_calls.release_finalizers(run.reference())
    state.instance = None
    state.create_may_land_until = 0.0
    now = (await run.read()).proxy
    if now is not None and now.uid == proxy.uid and now.our_finalizers:
        raise ObjectDisputed(f"the finalizers {', '.join(now.our_finalizers)} do not come off the object")
    return False


async def _hold(run: Run, proxy: Proxy, reason: Provisioned) -> None:
    state, reading = run.state, run.reading
    if reason is Provisioned.PAUSED:
        await _pause(run, proxy)
        return
    if reason is Provisioned.PERMANENT_ERROR:
        before = state.status.condition("Provisioned")
        kept = Failure(reason=reason, message=before.message if before is not None else "")
        if before is not None and before.reason == Provisioned.NAME_TAKEN:
            kept = dataclasses.replace(kept, reason=Provisioned.NAME_TAKEN)
        shown = state.failure or kept
        await run.publish(proxy, shown.reason, shown.message)
        run.keep_watching_what_runs(proxy)
        return
    message = f'provider "{proxy.spec.provider}" is not in the providers config'
    if reason is Provisioned.CLOUD_INIT_ERROR and reading is not None:
        message = reading.cloud_init_error
    await fail(run, Failure(reason=reason, message=message), Action.HOLD)


async def _pause(run: Run, proxy: Proxy) -> None:
    """Probe nothing, hand nothing out, ask nobody; what runs goes on running."""
    run.background.stop_watching()
    run.pace.clear_steps()
    run.state.failure, run.state.failed_action = None, ""
    run.forget_failures()
    # Nobody knows what becomes of it meanwhile.
    run.observed = Observed()
    proxy_facts.forget_health(run.state)
    await run.publish(proxy, Provisioned.PAUSED)


async def _record_spec_hash(run: Run, proxy: Proxy) -> None:
    """Keep the annotation equal to the instance's own mark; where marks prove nothing, adopt the present hash."""
    reading, instance = run.reading, run.state.instance
    if reading is None or instance is None:
        return
    recorded = proxy.annotations.get(names.ANNOTATION_SPEC_HASH, "")
    marks = (instance.spec_hash, recorded, reading.spec_hash)
    wanted = next((mark for mark in marks if spec_hash.is_comparable(mark)), "")
    if not wanted or wanted == recorded:
        return
    write = messages.SpecHashWrite(reference=run.reference(), spec_hash=wanted)
    _require(await activity_calls.record_spec_hash(write))
    annotated = dataclasses.replace(proxy, annotations={**proxy.annotations, names.ANNOTATION_SPEC_HASH: wanted})
    run.reading = dataclasses.replace(reading, proxy=annotated)


def _require(done: bool) -> None:
    if not done:
        raise ObjectDisputed
