"""The one place where our errors become Temporal's."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from temporalio import activity
from temporalio.exceptions import ApplicationError

from model.errors import EgressProxiesError, ProviderError, TransientError, clean_message


@asynccontextmanager
async def provider_errors_as_failures(entry_hash: str = "", *, retry: bool = True) -> AsyncIterator[None]:
    """Turn an error of this system into an ``ApplicationError`` of the same name.

    Only ``TransientError`` is retried by Temporal; the workflow decides about the others. The details carry the hash of
    the provider's config entry, by which a permanent failure is recognised as outdated, and the number of the attempt.
    The cause is left out: backend exceptions carry text that nobody cleaned.

    Args:
        entry_hash: Of the config entry in use.
        retry: Whether Temporal retries what may pass.
    """
    try:
        yield
    except EgressProxiesError as error:
        raise ApplicationError(
            clean_message(str(error)),
            entry_hash,
            activity.info().attempt if activity.in_activity() else 1,
            type=type(error).__name__,
            non_retryable=not retry or (isinstance(error, ProviderError) and not isinstance(error, TransientError)),
        ) from None
