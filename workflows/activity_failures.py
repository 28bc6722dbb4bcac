"""From an activity's failure to what the workflow does about it."""

from temporalio import workflow
from temporalio.exceptions import ActivityError, ApplicationError, TimeoutError, TimeoutType

with workflow.unsafe.imports_passed_through():
    from model.failures import Failure, failure_of, is_refusal
    from model.reasons import Provisioned


def failure_from(error: ActivityError, task_queue: str) -> Failure:
    """Return the failure that an activity's error stands for; ``task_queue`` is the queue it was put on."""
    cause = error.cause
    if isinstance(cause, TimeoutError):
        if cause.type == TimeoutType.SCHEDULE_TO_START:
            return Failure(reason=Provisioned.NO_WORKER, message=f"no worker serves task queue {task_queue}")
        return Failure(
            reason=Provisioned.TRANSIENT_ERROR,
            message=f"{error.activity_type} did not finish in time; it is tried again",
        )
    if isinstance(cause, ApplicationError):
        return failure_of(cause.type or "", cause.message)
    return Failure(reason=Provisioned.TRANSIENT_ERROR, message=str(cause or error))


def entry_hash_from(error: ActivityError) -> str:
    """Return the hash of the provider's config entry that the failed call used, or ""."""
    cause = error.cause
    if isinstance(cause, ApplicationError) and cause.details:
        return str(cause.details[0])
    return ""


def certainly_made_nothing(error: ActivityError) -> bool:
    """Whether a failed create has no effect and can have none later.

    Nobody took it, it never came to a try, or its first and only try was refused. Everything else, a worker that was
    lost and a call that was not answered in time included, may still take effect.
    """
    cause = error.cause
    if isinstance(cause, TimeoutError):
        return cause.type == TimeoutType.SCHEDULE_TO_START
    if not isinstance(cause, ApplicationError):
        return False
    tries = int(cause.details[1]) if len(cause.details) > 1 else 2
    return tries == 0 or (tries == 1 and is_refusal(cause.type or ""))


def object_has_changed(error: ActivityError) -> bool:
    """Whether the activity found that the object is not the one the step was decided for."""
    return isinstance(error.cause, ApplicationError) and error.cause.type == "ObjectChanged"
