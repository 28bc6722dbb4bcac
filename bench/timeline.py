"""What the workflows did between ``kubectl apply`` and Ready, by their histories."""

import statistics
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from temporalio.api.enums.v1 import EventType
from temporalio.client import Client

from bench.kubectl import NAMESPACE
from model import names

_ACTIVITY_ENDS = {
    EventType.EVENT_TYPE_ACTIVITY_TASK_COMPLETED: "activity_task_completed_event_attributes",
    EventType.EVENT_TYPE_ACTIVITY_TASK_FAILED: "activity_task_failed_event_attributes",
}


@dataclass(kw_only=True)
class Task:
    """One activity, workflow task or signal; times are Unix seconds, 0 while it has not come so far."""

    name: str
    scheduled: float
    started: float = 0.0
    ended: float = 0.0


async def describe(client: Client, proxies: Sequence[str], begun_at: float) -> list[str]:
    """Return lines about the tasks of these Proxies: each one of a single Proxy, medians of many.

    Args:
        client: Where the workflows run.
        proxies: Names.
        begun_at: Unix time to count from.
    """
    tasks = [await _tasks(client, name) for name in proxies]
    return _each(tasks[0], begun_at) if len(tasks) == 1 else _medians(tasks, begun_at)


async def _tasks(client: Client, proxy: str) -> list[Task]:
    handle = client.get_workflow_handle(names.proxy_workflow_id(NAMESPACE, proxy))
    tasks: dict[int, Task] = {}
    async for event in handle.fetch_history_events():
        _take(tasks, event)
    return list(tasks.values())


def _take(tasks: dict[int, Task], event: Any) -> None:
    at = event.event_time.ToMicroseconds() / 1e6
    kind = event.event_type
    if kind == EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED:
        name = event.activity_task_scheduled_event_attributes.activity_type.name
        tasks[event.event_id] = Task(name=name, scheduled=at)
    elif kind == EventType.EVENT_TYPE_WORKFLOW_TASK_SCHEDULED:
        tasks[event.event_id] = Task(name="workflow task", scheduled=at)
    elif kind == EventType.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED:
        name = f"signal {event.workflow_execution_signaled_event_attributes.signal_name}"
        tasks[event.event_id] = Task(name=name, scheduled=at)
    elif kind == EventType.EVENT_TYPE_ACTIVITY_TASK_STARTED:
        tasks[event.activity_task_started_event_attributes.scheduled_event_id].started = at
    elif kind == EventType.EVENT_TYPE_WORKFLOW_TASK_STARTED:
        tasks[event.workflow_task_started_event_attributes.scheduled_event_id].started = at
    elif kind == EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED:
        tasks[event.workflow_task_completed_event_attributes.scheduled_event_id].ended = at
    elif kind in _ACTIVITY_ENDS:
        tasks[getattr(event, _ACTIVITY_ENDS[kind]).scheduled_event_id].ended = at


def _each(tasks: Sequence[Task], begun_at: float) -> list[str]:
    """Return a line per task: when it was scheduled, how long it waited for a worker, how long it ran."""
    return [f"{task.scheduled - begun_at:7.3f} s  {task.name:<20}{_durations(task)}" for task in tasks]


def _durations(task: Task) -> str:
    if not task.started:
        return ""
    waited = f" waited {(task.started - task.scheduled) * 1000:4.0f} ms"
    return f"{waited}, ran {(task.ended - task.started) * 1000:4.0f} ms" if task.ended else waited


def _medians(fleet: Sequence[Sequence[Task]], begun_at: float) -> list[str]:
    by_name: dict[str, list[Task]] = defaultdict(list)
    for tasks in fleet:
        for task in tasks:
            by_name[task.name].append(task)
    return [_median(name, tasks, len(fleet), begun_at) for name, tasks in by_name.items()]


def _median(name: str, tasks: Sequence[Task], proxies: int, begun_at: float) -> str:
    waited = [task.started - task.scheduled for task in tasks if task.started]
    ran = [task.ended - task.started for task in tasks if task.ended]
    first, last = min(task.scheduled for task in tasks), max(task.scheduled for task in tasks)
    return (
        f"{name:<20} {len(tasks) / proxies:4.1f} per Proxy, from {first - begun_at:5.2f} s to {last - begun_at:5.2f} s,"
        f" median wait {_median_millis(waited)}, run {_median_millis(ran)}"
    )


def _median_millis(seconds: Sequence[float]) -> str:
    return f"{statistics.median(seconds) * 1000:4.0f} ms" if seconds else "   -"
