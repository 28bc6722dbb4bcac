"""How a Proxy's workflow waits for an activity that must end before anything else, and what may cut that short."""

import contextlib
from collections.abc import Callable
from datetime import timedelta

from temporalio import workflow
from temporalio.workflow import ActivityHandle

with workflow.unsafe.imports_passed_through():
    from model import messages, proxy_replacement
    from model.proxy import Proxy
    from model.reasons import Provisioned
    from workflows import activity_calls
    from workflows.proxy_background import cancel_quietly
    from workflows.proxy_publishing import ObjectChanged
    from workflows.proxy_run import Run

_READS_APART = timedelta(seconds=30)

Waited = ActivityHandle[messages.InstanceAnswer] | ActivityHandle[bool] | ActivityHandle[int]


async def wait_for_create(
    run: Run, handle: ActivityHandle[messages.InstanceAnswer], proxy: Proxy
) -> messages.InstanceAnswer:
    """Wait for a create, which is never overtaken; a deletion or a pause that comes meanwhile is shown at once.

    Raises:
        ObjectChanged: The object is being deleted and its clean-up skipped, so nobody waits for what is made.
    """
    while not handle.done():
        await workflow.wait_condition(lambda: handle.done() or run.poked)
        if not handle.done() and workflow.info().is_continue_as_new_suggested():
            # The run cannot be closed before the create has ended, so its history must grow slowly now.
            with contextlib.suppress(TimeoutError):
                await workflow.wait_condition(handle.done, timeout=_READS_APART)
        if handle.done():
            break
        run.poked = False
        now = (await activity_calls.read_proxy(run.reference())).proxy
        if now is None or now.uid != proxy.uid:
            continue
        if now.deleting and now.skips_cleanup:
            cancel_quietly(handle)
            raise ObjectChanged
        proxy_replacement.take_rotation(run.state, now)
        if now.deleting or now.is_paused:
            # Whatever has become of the object: what is made for it has to be known before it can be removed.
            with contextlib.suppress(ObjectChanged):
                await run.publish(now, Provisioned.DELETING, "a create is under way", evaluated=False)
    answer = await handle
    # Whatever was read meanwhile is taken in only now, when it is known what was made.
    run.poked = True
    return answer


def _always() -> bool:
    return True


async def wait_unless_overtaken(run: Run, handle: Waited, still_wanted: Callable[[], bool] = _always) -> None:
    """Wait for an activity that may be cut short; publish verdicts that come meanwhile.

    Args:
        run: The run of the workflow.
        handle: The activity.
        still_wanted: Asked each time the object was read anew.

    Raises:
        ObjectChanged: The object asks for something else now: it is being deleted, paused, or its clean-up is skipped.
    """
    while not handle.done():
        await workflow.wait_condition(lambda: handle.done() or run.poked or run.background.has_report())
        if handle.done():
            return
        before = _urgency(run.reading)
        if run.poked:
            await run.read()
        await run.take_report()
        reading = run.reading
        proxy = reading.proxy if reading is not None else None
        if proxy is not None and proxy.uid == run.state.uid:
            reason = Provisioned.DELETING if proxy.deleting else Provisioned.RUNNING
            if proxy.deleting or run.state.runs:
                try:
                    await run.publish(proxy, reason, run.running_message(), evaluated=False)
                except ObjectChanged:
                    cancel_quietly(handle)
                    raise
        if _urgency(reading) != before or not still_wanted():
            cancel_quietly(handle)
            raise ObjectChanged


def _urgency(reading: messages.ProxyReading | None) -> tuple[bool, bool, bool, str]:
    """What about an object makes a running look, drain or removal pointless when it changes."""
    proxy = reading.proxy if reading is not None else None
    if proxy is None:
        return False, False, False, ""
    return proxy.deleting, proxy.skips_cleanup, proxy.is_paused, proxy.uid
