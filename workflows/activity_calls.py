"""The activities as workflows call them: names, queues, deadlines and retry rules in one place."""

from datetime import timedelta

from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.workflow import ActivityCancellationType, ActivityHandle

with workflow.unsafe.imports_passed_through():
    from model import messages, names

SCHEDULE_TO_START = timedelta(seconds=60)
"""After this long without a worker on the queue, the caller says so."""
_SHORT = timedelta(seconds=12)
"""For one exchange with the API server or the broker, so that a lost worker holds nothing up for long."""

_UNTIL_DONE = RetryPolicy(
    initial_interval=timedelta(milliseconds=200), backoff_coefficient=2, maximum_interval=timedelta(seconds=30)
)
_THREE_TRIES = RetryPolicy(initial_interval=timedelta(seconds=1), backoff_coefficient=2, maximum_attempts=3)
_POLL = RetryPolicy(initial_interval=timedelta(seconds=1), maximum_interval=timedelta(seconds=10))
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
    return workflow.start_activity(
        "look_for_instance",
        query,
        task_queue=route.task_queue,
        result_type=messages.InstanceAnswer,
        schedule_to_start_timeout=SCHEDULE_TO_START,
        start_to_close_timeout=timedelta(seconds=90),
        heartbeat_timeout=timedelta(seconds=10),
        retry_policy=_THREE_TRIES,
        cancellation_type=ActivityCancellationType.TRY_CANCEL,
    )


def start_creating(
    route: messages.ProviderRoute, create: messages.CreateInstance
) -> ActivityHandle[messages.InstanceAnswer]:
    """Start to create, or adopt what an earlier attempt made; the wait for a slow backend is the activity's own."""
    return workflow.start_activity(
        "create_instance",
        create,
        task_queue=route.task_queue,
        result_type=messages.InstanceAnswer,
        schedule_to_start_timeout=SCHEDULE_TO_START,
        start_to_close_timeout=timedelta(minutes=30),
        heartbeat_timeout=timedelta(seconds=10),
        retry_policy=_THREE_TRIES,
    )


def start_awaiting_instance(
    route: messages.ProviderRoute, query: messages.InstanceQuery
) -> ActivityHandle[messages.InstanceAnswer]:
    """Start to poll until the instance runs, stops or is gone."""
    return workflow.start_activity(
        "await_instance",
        query,
        task_queue=route.task_queue,
        result_type=messages.InstanceAnswer,
        schedule_to_start_timeout=SCHEDULE_TO_START,
        start_to_close_timeout=timedelta(seconds=90),
        heartbeat_timeout=timedelta(seconds=10),
        retry_policy=_POLL,
        cancellation_type=ActivityCancellationType.TRY_CANCEL,
    )


def start_removing(route: messages.ProviderRoute, remove: messages.RemoveInstance) -> ActivityHandle[bool]:
    """Start to delete one incarnation and to wait until it is proven gone; False when nobody asks for it any more."""
    return workflow.start_activity(
        "remove_instance",
        remove,
        task_queue=route.task_queue,
        result_type=bool,
        schedule_to_start_timeout=SCHEDULE_TO_START,
        start_to_close_timeout=timedelta(seconds=120),
        heartbeat_timeout=timedelta(seconds=10),
        retry_policy=_THREE_TRIES,
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
