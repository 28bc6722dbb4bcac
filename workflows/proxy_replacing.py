"""How a Proxy's workflow takes an instance away: for good, or to make another one in its place."""

import dataclasses

from temporalio import workflow
from temporalio.exceptions import ActivityError

with workflow.unsafe.imports_passed_through():
    from model import messages, proxy_facts, proxy_replacement
    from model.decide import Action, Observed, Step
    from model.proxy import Proxy
    from model.proxy_state import InstanceRecord
    from model.reasons import Cause, Provisioned
    from workflows import activity_calls
    from workflows.proxy_pace import Wake
    from workflows.proxy_publishing import ObjectDisputed
    from workflows.proxy_run import Run
    from workflows.proxy_waiting import wait_unless_overtaken


async def replace(run: Run, proxy: Proxy, step: Step) -> None:
    """Stop handing it out and write why, let its leases drain, delete it, and wait until it is proven gone."""
    state, instance = run.state, _instance_of(run)
    reason = step.reason or Provisioned.REPLACING
    if step.cause is Cause.AGE and not state.is_replacing:
        # A clock that is wrong, or a maximum below what a start takes, must not make instances in a hot loop.
        proxy_facts.note_end(state, instance.incarnation, run.now())
    proxy_replacement.begin(state, proxy, step.cause or Cause.SPEC, run.now())
    proxy_facts.forget_health(state)
    run.pace.clear(Wake.AGE)
    if _drain_seconds_left(run, proxy) > 0:
        drains = f"it drains its leases for up to {proxy.spec.drain_seconds} s"
        await run.publish_step(proxy, reason, drains, required=True)
        await _drain(run, proxy, instance)
    # Whatever comes of the removal, the provider is asked again before anything else is decided.
    run.observed = Observed()
    await run.publish_step(proxy, reason, required=True)
    await remove_instance(run, instance, replacing=True)
    _note_removed(run)


async def delete(run: Run, proxy: Proxy, step: Step) -> None:
    """Stop handing it out, delete it, and wait until it is proven gone."""
    state, instance = run.state, _instance_of(run)
    state.instance = dataclasses.replace(instance, ip="")
    proxy_facts.forget_health(state)
    run.pace.clear(Wake.AGE)
    run.observed = Observed()
    await run.publish_step(proxy, step.reason or Provisioned.DELETING, required=True)
    await remove_instance(run, instance, replacing=False)
    _note_removed(run)


async def remove_instance(run: Run, instance: InstanceRecord, *, replacing: bool) -> None:
    """Have one incarnation deleted and proven gone.

    Raises:
        ObjectChanged: The object asks for something else now.
        ActivityError: It failed.
    """
    remove = messages.RemoveInstance(
        reference=run.reference(),
        provider=run.state.provider,
        provider_id=instance.provider_id,
        incarnation=instance.incarnation,
        replacing=replacing,
    )
    removing = activity_calls.start_removing(run.route(), remove)
    await wait_unless_overtaken(run, removing)
    if not await removing:
        raise ObjectDisputed


async def abandon(run: Run) -> None:
    """Leave an instance where it is; one short try takes our marks off, so that nobody takes it for ours."""
    state = run.state
    if state.instance is None or state.route is None:
        return
    unmark = messages.UnmarkInstance(
        reference=run.reference(),
        provider=state.provider,
        provider_id=state.instance.provider_id,
        incarnation=state.instance.incarnation,
    )
    try:
        done = await activity_calls.unmark_instance(state.route, unmark)
    except ActivityError as error:
        workflow.logger.warning("%s is left with its marks on: %s", state.instance.provider_id, error.cause or error)
        return
    if not done:
        workflow.logger.warning("%s is left with its marks on", state.instance.provider_id)


async def _drain(run: Run, proxy: Proxy, instance: InstanceRecord) -> None:
    """Wait until no lease runs on it, at most to the end of its drain; a broker out of reach delays it no further.

    Raises:
        ObjectChanged: It is not to be replaced now; or the history is long, and another run goes on with the drain.
    """
    replacing = run.state.replacing
    if replacing is None:
        raise RuntimeError("a drain without a replacement")
    drain = messages.DrainProxy(
        reference=run.reference(), instance=instance.incarnation, ends_at=int(replacing.drain_ends_at * 1000)
    )
    draining = activity_calls.start_draining(drain, _drain_seconds_left(run, proxy))

    def goes_on() -> bool:
        return run.next_step().action is Action.REPLACE and not workflow.info().is_continue_as_new_suggested()

    try:
        await wait_unless_overtaken(run, draining, goes_on)
        await draining
    except ActivityError as error:
        workflow.logger.warning("leases on %s are not waited for: %s", instance.provider_id, error.cause or error)


def _drain_seconds_left(run: Run, proxy: Proxy) -> float:
    """Return how long leases may still run; a clock that was set back makes no drain longer than it was asked for."""
    replacing = run.state.replacing
    if replacing is None or not run.state.is_replacing:
        return 0.0
    return min(replacing.drain_ends_at - run.now(), float(proxy.spec.drain_seconds))


def _instance_of(run: Run) -> InstanceRecord:
    if run.state.instance is None:
        raise RuntimeError("an instance was observed and none is on record")
    return run.state.instance


def _note_removed(run: Run) -> None:
    state = run.state
    state.instance = state.replacing = None
    state.failure, state.failed_action = None, ""
    run.forget_retry()
