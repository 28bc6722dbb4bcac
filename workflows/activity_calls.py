"""The activities as workflows call them: names, queues, deadlines and retry rules in one place."""

from datetime import timedelta
from typing import TypeVar

from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.workflow import ActivityCancellationType, ActivityHandle

with workflow.unsafe.imports_passed_through():
    from model import messages, names

Result = TypeVar("Result")

SCHEDULE_TO_START = timedelta(seconds=60)
"""After this long without a worker on the queue, the caller says so."""
_SHORT = timedelta(seconds=12)
"""For one exchange with the API server or the broker, so that a lost worker holds nothing up for long."""
_UNMARK = timedelta(seconds=5)
_DRAIN_GRACE = timedelta(seconds=5)

_UNTIL_DONE = RetryPolicy(
    initial_interval=timedelta(milliseconds=200), backoff_coefficient=2, maximum_interval=timedelta(seconds=30)
)
_THREE_TRIES = RetryPolicy(initial_interval=timedelta(seconds=1), backoff_coefficient=2, maximum_attempts=3)
_POLL = RetryPolicy(initial_interval=timedelta(seconds=1), maximum_interval=timedelta(seconds=10))
_OWN_TRIES = RetryPolicy(initial_interval=timedelta(seconds=1), maximum_interval=timedelta(seconds=10))
"""For a create, which counts its own tries: waiting for its turn is none, however long it takes."""
_PROBE = RetryPolicy(initial_interval=timedelta(seconds=1), maximum_interval=timedelta(seconds=5))


async def read_proxy(reference: messages.ProxyReference) -> messages.ProxyReading:
    """Read the object of that name and what its cloud-init comes to; goes on until the API server answers."""
    return await _read("read_proxy", reference)


async def add_finalizer(reference: messages.ProxyReference) -> messages.ProxyReading:
    """Put our finalizer on and read the object as it is then, whether or not it is the same one."""
    return await _read("add_finalizer", reference)


async def release_finalizers(reference: messages.ProxyReference) -> bool:
    """Take our finalizers off; False when the object is another one by now."""
    return await _write("release_finalizers", reference)


async def record_spec_hash(write: messages.SpecHashWrite) -> bool:
    """Write the spec-hash annotation; False when the object is another one by now."""
    return await _write("record_spec_hash", write)


async def write_status(write: messages.StatusWrite, give_up_after: timedelta) -> bool:
    """Write the status; False when the object is another one by now.

    Raises:
        ActivityError: The API server did not take it within ``give_up_after``.
    """
    return await _write("write_status", write, give_up_after)


async def tell_broker(tell: messages.BrokerTell) -> messages.BrokerAnswer:
    """Tell the lease broker a transition; goes on until it answers."""
    result: messages.BrokerAnswer = await workflow.execute_activity(
        "tell_broker",
        tell,
        task_queue=names.QUEUE_CONTROL,
        result_type=messages.BrokerAnswer,
        start_to_close_timeout=_SHORT,
        retry_policy=_UNTIL_DONE,
    )
    return result


def start_looking(
    route: messages.ProviderRoute, query: messages.InstanceQuery
) -> ActivityHandle[messages.InstanceAnswer]:
    """Start to ask the provider what is there."""
    return _start(route, "look_for_instance", query, messages.InstanceAnswer, timedelta(seconds=90))


def start_creating(
    route: messages.ProviderRoute, create: messages.CreateInstance
) -> ActivityHandle[messages.InstanceAnswer]:
    """Start to create, or adopt what an earlier attempt made; the wait for a slow backend is the activity's own."""
    return _start(route, "create_instance", create, messages.InstanceAnswer, timedelta(minutes=30), _OWN_TRIES)


def start_awaiting_instance(
    route: messages.ProviderRoute, query: messages.InstanceQuery
) -> ActivityHandle[messages.InstanceAnswer]:
    """Start to poll until the instance runs, stops or is gone."""
    return _start(route, "await_instance", query, messages.InstanceAnswer, timedelta(seconds=90), _POLL)


def start_removing(route: messages.ProviderRoute, remove: messages.RemoveInstance) -> ActivityHandle[bool]:
    """Start to delete one incarnation and to wait until it is proven gone; False when nobody asks for it any more."""
    return _start(route, "remove_instance", remove, bool, timedelta(seconds=120))


async def unmark_instance(route: messages.ProviderRoute, unmark: messages.UnmarkInstance) -> bool:
    """Try once, and shortly, to take our marks off an instance; False when it was not so.

    Raises:
        ActivityError: It failed, or nobody serves the queue.
    """
    result: bool = await workflow.execute_activity(
        "unmark_instance",
        unmark,
        task_queue=route.task_queue,
        result_type=bool,
        schedule_to_close_timeout=_UNMARK,
        retry_policy=RetryPolicy(maximum_attempts=1),
    )
    return result


def start_draining(drain: messages.DrainProxy, seconds_left: float) -> ActivityHandle[int]:
    """Start to wait until no lease runs on an instance; it fails some seconds after the end at the latest."""
    # What was done since the end was chosen may have taken longer than the drain.
    end = timedelta(seconds=max(0.0, seconds_left)) + _DRAIN_GRACE
    return workflow.start_activity(
        "drain_proxy",
        drain,
        task_queue=names.QUEUE_CONTROL,
        result_type=int,
        schedule_to_close_timeout=end,
        start_to_close_timeout=end,
        heartbeat_timeout=timedelta(seconds=10),
        retry_policy=_POLL,
        cancellation_type=ActivityCancellationType.TRY_CANCEL,
    )


def start_watching_health(task_queue: str, watch: messages.WatchHealth) -> ActivityHandle[messages.HealthReport]:
    """Start the long-lived probing of one proxy; it ends only with a change."""
    return workflow.start_activity(
        "watch_health",
        watch,
        task_queue=task_queue,
        result_type=messages.HealthReport,
        schedule_to_start_timeout=SCHEDULE_TO_START,
        start_to_close_timeout=timedelta(days=365),
        heartbeat_timeout=timedelta(seconds=30),
        retry_policy=_PROBE,
        cancellation_type=ActivityCancellationType.TRY_CANCEL,
    )


def _start(
    route: messages.ProviderRoute,
    activity: str,
    argument: object,
    result_type: type[Result],
    start_to_close: timedelta,
    retry_policy: RetryPolicy = _THREE_TRIES,
) -> ActivityHandle[Result]:
    """Start an activity on a provider's queue, which may have no worker."""
    return workflow.start_activity(
        activity,
        argument,
        task_queue=route.task_queue,
        result_type=result_type,
        schedule_to_start_timeout=SCHEDULE_TO_START,
        start_to_close_timeout=start_to_close,
        heartbeat_timeout=timedelta(seconds=10),
        retry_policy=retry_policy,
        cancellation_type=ActivityCancellationType.TRY_CANCEL,
    )


async def _read(activity: str, reference: messages.ProxyReference) -> messages.ProxyReading:
    result: messages.ProxyReading = await workflow.execute_activity(
        activity,
        reference,
        task_queue=names.QUEUE_CONTROL,
        result_type=messages.ProxyReading,
        start_to_close_timeout=_SHORT,
        retry_policy=_UNTIL_DONE,
    )
    return result


async def _write(activity: str, argument: object, give_up_after: timedelta | None = None) -> bool:
    result: bool = await workflow.execute_activity(
        activity,
        argument,
        task_queue=names.QUEUE_CONTROL,
        result_type=bool,
        start_to_close_timeout=_SHORT,
        schedule_to_close_timeout=give_up_after,
        retry_policy=_UNTIL_DONE,
    )
    return result
