"""How our errors travel through Temporal."""

import traceback

import pytest
from temporalio.exceptions import ApplicationError

from activities.errors import provider_errors_as_failures
from cluster.errors import ClusterUnavailableError
from cluster.secrets import CloudInitError
from model import errors


async def raised(error: Exception, *, retry: bool = True) -> ApplicationError:
    with pytest.raises(ApplicationError) as failed:
        async with provider_errors_as_failures("entry-hash", retry=retry):
            raise error
    return failed.value


@pytest.mark.parametrize(
    ("error", "retried"),
    [
        (errors.TransientError("x"), True),
        (errors.NotFoundError("x"), False),
        (errors.QuotaExceededError("x"), False),
        (errors.AccessDeniedError("x"), False),
        (errors.PermanentError("x"), False),
        (errors.NameTakenError("x"), False),
        (errors.ProviderNotConfiguredError("x"), False),
        (errors.UnavailableError("x"), True),
        (ClusterUnavailableError("x"), True),
        (CloudInitError("x"), True),
    ],
)
async def test_only_what_may_pass_is_retried_by_temporal(error: Exception, retried: bool) -> None:
    failure = await raised(error)
    assert failure.type == type(error).__name__
    assert failure.non_retryable is not retried
    assert failure.message == "x"
    assert list(failure.details) == ["entry-hash", 1]


async def test_whoever_polls_lets_nothing_be_retried() -> None:
    assert (await raised(errors.TransientError("x"), retry=False)).non_retryable


async def test_neither_text_nor_cause_carries_a_secret() -> None:
    error = errors.TransientError("dial user:S3cr3t-xyz@host:3128, request id: 77aa03")
    error.__cause__ = ValueError("S3cr3t-xyz")
    failure = await raised(error)
    assert failure.__cause__ is None
    assert failure.__suppress_context__
    words = "".join(traceback.format_exception_only(failure)) + failure.message
    assert "S3cr3t-xyz" not in words
    assert "77aa03" not in words


async def test_errors_of_others_pass_unchanged() -> None:
    with pytest.raises(ValueError, match="a defect"):
        async with provider_errors_as_failures():
            raise ValueError("a defect")


async def test_success_stays_success() -> None:
    async with provider_errors_as_failures():
        pass
