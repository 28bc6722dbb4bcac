"""How the failure of a step is shown, and when it is tried again."""

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from model import failures, messages
    from model.failures import Failure
    from workflows.proxy_pace import Wake
    from workflows.proxy_run import Run


async def fail(
    run: Run,
    failure: Failure,
    action: str,
    *,
    evaluated: bool = True,
    decided_for: messages.ProxyReading | None = None,
) -> None:
    """Show a failure and plan the next try.

    Args:
        run: The run of the workflow.
        failure: What failed.
        action: The step it came from.
        evaluated: Whether the step was decided with the instance's state known.
        decided_for: The reading the step was decided for, if not the last one.
    """
    state, reading = run.state, run.reading
    proxy = reading.proxy if reading is not None else None
    decided_for = decided_for or reading
    if _asks_for(decided_for) != _asks_for(reading):
        # What was read since the step began has not been tried.
        evaluated, run.poked = False, True
    state.failure, state.failed_action = failure, action
    state.failures_in_a_row += 1
    wait = failures.wait_after(failure, state.failures_in_a_row)
    if failure.latched and (proxy is None or proxy.deleting or proxy.uid != state.uid):
        # A removal never latches, that of what a former object has left included.
        wait = failures.SLOW_WAIT_SECONDS
    elif failure.latched:
        generation, spec_hash = _asks_for(decided_for)
        state.failed_cause = failures.failed_cause(generation, spec_hash, state.entry_hash, state.handled_retry)
    if wait is not None:
        run.pace.set(Wake.RETRY, run.now() + wait)
    if proxy is not None and proxy.uid != state.uid:
        await run.publisher.explain_wait(proxy, f"the former object's instance is not gone yet: {failure.message}")
    elif proxy is not None:
        await run.publish(proxy, failure.reason, failure.message, evaluated=evaluated)
        run.keep_watching_what_runs(proxy)


def _asks_for(reading: messages.ProxyReading | None) -> tuple[int, str]:
    """Return generation and spec hash of a reading."""
    proxy = reading.proxy if reading is not None else None
    return (proxy.generation, reading.spec_hash) if proxy is not None and reading is not None else (0, "")
