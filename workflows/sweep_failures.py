"""Why an activity of a scheduled run failed, as a word and a line for humans."""

from temporalio import workflow
from temporalio.exceptions import ActivityError, ApplicationError, TimeoutError, TimeoutType

with workflow.unsafe.imports_passed_through():
    from model.errors import cut
    from model.provider_health import API_ERROR, NO_WORKER, TIMEOUT

_LINE_BYTES = 300


def word_and_message(error: ActivityError, task_queue: str) -> tuple[str, str]:
    """Return a CamelCase word and the text; ``task_queue`` is the queue the activity was put on."""
    cause = error.cause
    if isinstance(cause, TimeoutError):
        if cause.type == TimeoutType.SCHEDULE_TO_START:
            return NO_WORKER, f"no worker serves task queue {task_queue}"
        return TIMEOUT, f"{error.activity_type} did not finish in time"
    if isinstance(cause, ApplicationError):
        word = cause.type or "Error"
        return word if word == API_ERROR else word.removesuffix("Error") or word, cause.message
    return "Error", str(cause or error)


def line(error: ActivityError, task_queue: str) -> str:
    """Return both in one short line."""
    return cut(": ".join(word_and_message(error, task_queue)), _LINE_BYTES)
