"""The errors of the system and their retry rules.

Every class states when the same call may be tried again. The class name is also the ``type`` of the Temporal
``ApplicationError`` it becomes and, for provider errors, the ``result`` label of a metric.

* ``NotFoundError``: the instance is gone. Never retried: the answer is the fact.
* ``QuotaExceededError``: retried every 5 minutes, never ``Failed``.
* ``TransientError``: retried by Temporal three times within seconds, then by the workflow from 10 s up to 5 min.
* ``AccessDeniedError``: retried every 5 minutes, and as soon as the provider's check turns good.
* ``PermanentError``: not retried until its cause may have changed.
* ``NameTakenError``: like permanent; the instance of that name belongs to somebody else and is left alone.
"""

import re

MESSAGE_LIMIT = 1024
"""Longest error text that leaves a process, in bytes of UTF-8."""


class EgressProxiesError(Exception):
    """Root of this system's own errors."""


class ConfigurationError(EgressProxiesError):
    """A setting or a file cannot be used as it is. Not retried: a human has to change it."""


class UnavailableError(EgressProxiesError):
    """Temporal or the lease broker cannot be reached in time. Retried by whoever asked, after a wait."""


class ProviderError(EgressProxiesError):
    """A provider said no. Subclasses state the retry rule.

    Attributes:
        reason: The CamelCase word for the Provisioned condition.
        entry_hash: Hash of the provider's config entry that the failing call used, or "" when it had none.
    """

    reason = "TransientError"
    entry_hash = ""


class NotFoundError(ProviderError):
    """The instance does not exist (any more). Never raised for "cannot tell"."""

    reason = "InstanceMissing"


class QuotaExceededError(ProviderError):
    """No capacity now; waiting or a raised limit helps. Retried every 5 minutes."""

    reason = "QuotaExceeded"


class TransientError(ProviderError):
    """Nothing is known or something is busy. Call again."""

    reason = "TransientError"


class AccessDeniedError(ProviderError):
    """The backend refused our credentials. Retried every 5 minutes."""

    reason = "AccessDenied"


class PermanentError(ProviderError):
    """The request can never succeed as it stands; the message names the field and the value."""

    reason = "PermanentError"


class NameTakenError(ProviderError):
    """An instance with our name carries another uid or installation. Never adopted, never deleted."""

    reason = "NameTaken"


class ProviderNotConfiguredError(ProviderError):
    """The providers config of this worker has no entry of that name. Retried once the config has one."""

    reason = "ProviderNotConfigured"


PROVIDER_ERRORS: dict[str, type[ProviderError]] = {
    error.__name__: error
    for error in (
        NotFoundError,
        QuotaExceededError,
        TransientError,
        AccessDeniedError,
        PermanentError,
        NameTakenError,
        ProviderNotConfiguredError,
    )
}

_SECRET = re.compile(
    r"(?i)(authorization\s*[:=]\s*(?:basic|bearer)\s+|\bbearer\s+|(?:password|passwd|token|secret|api[-_]?key)\s*[:=]\s*)"
    r"[^\s,;&\"']+"
)
_USER_INFO = re.compile(r"(?<![\w@])((?:[a-z][a-z0-9+.-]*://)?)[^\s/@:\"']+:[^\s/@\"']+@")
_UUID = re.compile(r"(?i)\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b")
_REQUEST_ID = re.compile(r"(?i)\b(request[-_ ]?id|trace[-_ ]?id|operation[-_ ]?id)(\s*[:=]\s*)\S+")
_TIME = re.compile(r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?")
_EPOCH = re.compile(r"\b1[5-9]\d{8}(?:\.\d+|\d{3}|\d{6}|\d{9})?\b")


def cut(text: str, limit: int = MESSAGE_LIMIT) -> str:
    """Return ``text`` in at most ``limit`` bytes of UTF-8, never ending inside a character."""
    encoded = text.encode("utf-8", "replace")
    if len(encoded) <= limit:
        return encoded.decode()
    return encoded[: limit - 3].decode("utf-8", "ignore") + "..."


def clean_message(text: str) -> str:
    """Return error text fit for a status: one line, masked, cut, and equal for equal failures.

    Credentials become ``***``; request ids and times, which differ on every try, are taken out, so that a retry loop
    writes the same status again and therefore writes nothing.
    """
    text = " ".join(cut(text, 16 * MESSAGE_LIMIT).split())
    text = _SECRET.sub(r"\1***", text)
    text = _USER_INFO.sub(r"\1***@", text)
    text = _REQUEST_ID.sub(r"\1\2-", text)
    for pattern in (_UUID, _TIME, _EPOCH):
        text = pattern.sub("-", text)
    return cut(text)
