"""How long the broker's workflow tasks took, by its histories."""

from temporalio.api.enums.v1 import EventType
from temporalio.client import Client

from model import names


async def task_millis(client: Client, since: float) -> list[float]:
    """Return the length of every workflow task of the broker that started after a moment, in milliseconds.

    From the server's side: from handing the task to the worker until its result is stored.

    Args:
        client: Where the broker runs.
        since: Unix seconds.
    """
    millis: list[float] = []
    run_id = ""
    # From the newest run back, as long as a run may have tasks that are late enough.
    while True:
        handle = client.get_workflow_handle(names.LEASE_BROKER_ID, run_id=run_id or None)
        started: dict[int, float] = {}
        begun = float("inf")
        previous = ""
        async for event in handle.fetch_history_events():
            at = event.event_time.ToMicroseconds() / 1e6
            if event.event_type == EventType.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED:
                begun = at
                previous = event.workflow_execution_started_event_attributes.continued_execution_run_id
            elif event.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_STARTED:
                started[event.event_id] = at
            elif event.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED:
                asked = started[event.workflow_task_completed_event_attributes.started_event_id]
                if asked >= since:
                    millis.append((at - asked) * 1000)
        if begun < since or not previous:
            return millis
        run_id = previous
