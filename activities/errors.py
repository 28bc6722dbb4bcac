"""The one place where our errors become Temporal's."""

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

from temporalio import activity
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory, FailureError

from activities.tries import MOST_TRIES, Tries
from model.errors import EgressProxiesError, NoTurnError, ProviderError, TransientError, clean_message

_JITTER = 0.25


@asynccontextmanager
async def provider_errors_as_failures(
    entry_hash: str = "", *, retry: bool = True, tries: Tries | None = None
) -> AsyncIterator[None]:
    """Turn an error of this system into an ``ApplicationError`` of the same name.

    Only ``TransientError`` is retried by Temporal, and ``NoTurnError`` for as long as it takes; the workflow decides
    about the others. The details carry the hash of the provider's config entry, by which a permanent failure is
    recognised as outdated, and the number of the try. The cause is left out: backend exceptions carry text that nobody
    cleaned.

    Args:
        entry_hash: Of the config entry in use.
        retry: Whether Temporal retries what may pass.
        tries: Counts the tries of an activity whose attempts Temporal does not limit; otherwise each attempt is one.
    """
    number = tries.number if tries else activity.info().attempt if activity.in_activity() else 1
    if tries and tries.too_many:
        text = f"{MOST_TRIES} tries were cut off without an answer"
        raise ApplicationError(text, entry_hash, number, type=TransientError.__name__, non_retryable=True)
    last = not retry or (tries is not None and tries.exhausted)
    try:
        yield
    except NoTurnError as error:
        if tries:
            tries.take_back()
        raise ApplicationError(
            clean_message(str(error)),
            entry_hash,
            tries.number if tries else number,
            type=type(error).__name__,
            next_retry_delay=timedelta(seconds=error.wait_seconds * random.uniform(1 - _JITTER, 1)),  # noqa: S311
            category=ApplicationErrorCategory.BENIGN,
        ) from None
    except EgressProxiesError as error:
        raise ApplicationError(
            clean_message(str(error)),
            entry_hash,
            number,
            type=type(error).__name__,
            non_retryable=last or (isinstance(error, ProviderError) and not isinstance(error, TransientError)),
        ) from None
    except FailureError:
        raise
    except Exception as error:
        if tries is None or not last:
            raise
        text = clean_message(f"{type(error).__name__}: {error}")
        raise ApplicationError(text, entry_hash, number, type=type(error).__name__, non_retryable=True) from None
