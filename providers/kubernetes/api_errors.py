"""What an API server answers instead of what was asked for, and what that means for a provider's caller."""

import re
from collections.abc import Mapping
from typing import Any

from model.errors import (
    AccessDeniedError,
    PermanentError,
    ProviderError,
    QuotaExceededError,
    TransientError,
    clean_message,
)

UNAUTHORIZED = 401
FORBIDDEN = 403
NOT_FOUND = 404
CONFLICT = 409
GONE = 410
_BAD_REQUEST = 400
_TOO_LARGE = 413
_INVALID = 422

_DENIED_TO_USER = re.compile(r'\bUser "[^"]*" cannot ')
_LACKS_AMOUNTS = re.compile(r"failed quota: .*must specify|(?:minimum|maximum) \S+ usage per |must have \S+ set")
_BREAKS_POLICY = re.compile(r"violates PodSecurity|denied the request|ValidatingAdmissionPolicy ")
# A namespace gets its service account, and a quota its first count, a moment after it was made.
_COMES_BY_ITSELF = re.compile(r"error looking up service account|status unknown for quota")


class ApiError(Exception):
    """Root of what ``ApiServer`` raises; it never leaves the package."""


class NoAnswerError(ApiError):
    """Nothing was heard, or something that is no answer of an API server.

    Attributes:
        timed_out: Whether the deadline passed.
    """

    def __init__(self, message: str, *, timed_out: bool = False) -> None:
        super().__init__(message)
        self.timed_out = timed_out


class NoCredentialsError(ApiError):
    """There are no credentials that can be used."""


class RefusedError(ApiError):
    """The API server answered with an error.

    Attributes:
        code: HTTP status.
        status: The ``Status`` object, empty where the body is none.
    """

    def __init__(self, message: str, code: int, status: Mapping[str, Any]) -> None:
        super().__init__(message)
        self.code = code
        self.status = status

    @property
    def reason(self) -> str:
        """CamelCase word of the API server."""
        return str(self.status.get("reason") or "")

    @property
    def detail(self) -> str:
        """Text of the API server."""
        return str(self.status.get("message") or "")

    def concerns(self, kind: str) -> bool:
        """Whether the API server names that resource as the one it means."""
        details = self.status.get("details")
        return isinstance(details, Mapping) and details.get("kind") == kind

    def has_cause(self, reason: str) -> bool:
        """Whether that is among the causes."""
        details = self.status.get("details")
        causes = details.get("causes") if isinstance(details, Mapping) else None
        return any(isinstance(cause, Mapping) and cause.get("reason") == reason for cause in causes or ())


def is_absent(error: RefusedError) -> bool:
    """Whether the Pod is gone; a 404 of something in between, or of another resource, proves nothing."""
    return error.code == NOT_FOUND and error.reason == "NotFound" and error.concerns("pods")


def provider_error(error: ApiError, *, creating: bool = False) -> ProviderError:
    """Return the error of the contract for one of ours.

    Args:
        error: What happened.
        creating: Whether a Pod was to be made, so that the refusal is about what it is made of.
    """
    text = clean_message(str(error))
    if isinstance(error, NoCredentialsError):
        return AccessDeniedError(text)
    if not isinstance(error, RefusedError):
        return TransientError(text)
    if error.code == UNAUTHORIZED:
        return AccessDeniedError(text)
    if error.code == FORBIDDEN:
        return _forbidden(error, text)
    if creating and error.code == NOT_FOUND and error.concerns("namespaces"):
        return PermanentError(f"kubernetes.namespace: {text}; create the namespace or name another")
    if creating and error.code in (_BAD_REQUEST, _TOO_LARGE, _INVALID) and error.status:
        return PermanentError(text)
    return TransientError(text)


def _forbidden(error: RefusedError, text: str) -> ProviderError:
    """Tell apart what all comes as 403; what is unknown is tried again every few minutes."""
    if error.has_cause("NamespaceTerminating"):
        return TransientError(text)
    if "exceeded quota" in error.detail:
        return QuotaExceededError(text)
    if _DENIED_TO_USER.search(error.detail):
        return AccessDeniedError(text)
    if _LACKS_AMOUNTS.search(error.detail):
        return PermanentError(f"kubernetes.resources: {text}")
    if _BREAKS_POLICY.search(error.detail):
        return PermanentError(text)
    if _COMES_BY_ITSELF.search(error.detail):
        return TransientError(text)
    return AccessDeniedError(text)
