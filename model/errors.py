"""The errors of the system and their retry rules.

Every class states when the same call may be tried again. The class name is also the ``type`` of the Temporal
``ApplicationError`` it becomes and, for provider errors, the ``result`` label of a metric.

* ``NotFoundError``: the instance is gone. Never retried: the answer is the fact.
* ``QuotaExceededError``: retried every 5 minutes, never ``Failed``.
* ``TransientError``: retried by Temporal three times within seconds, then by the workflow from 10 s up to 5 min.
* ``AccessDeniedError``: retried every 5 minutes, and as soon as the provider's check turns good.
* ``PermanentError``: not retried until its cause may have changed.
* ``NameTakenError``: like permanent; the instance of that name belongs to somebody else and is left alone.
* ``NoTurnError``: retried by Temporal within seconds until there is a turn; nothing was asked of the backend.
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


class PokeRefusedError(EgressProxiesError):
    """Temporal will not take a poke as it is. Not retried; the next listing compares objects and workflows again."""


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


class NoTurnError(ProviderError):
    """As many creates run in this worker as ``maxConcurrentCreates`` allows; the backend was not asked.

    Tried again by Temporal after ``wait_seconds``, as often as it takes; it counts as no try.

    Attributes:
        wait_seconds: When to ask again.
    """

    reason = "TransientError"

    def __init__(self, message: str, wait_seconds: float = 1.0) -> None:
        super().__init__(message)
        self.wait_seconds = wait_seconds


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
        NoTurnError,
    )
}

_WINDOW = 4 * MESSAGE_LIMIT
"""Of longer text only the beginning is cleaned, so that a page of megabytes costs no more than a line."""

_VALUE = r"""(?:\\+["'][^"'\\]*(?:\\+["'])?|"(?:[^"\\]|\\.)*"?|'(?:[^'\\]|\\.)*'?|[^\s,;&"'<>]+)"""
_SECRETS = (
    re.compile(
        r"(?i)(\b(?:proxy-)?authorization\\*[\"']?\s*[:=]\s*\\*[\"']?"
        r"(?:(?:basic|bearer|digest|negotiate|ntlm|token|apikey)\s+)?)[^\s,;&\"']+"
    ),
    re.compile(r"(?i)(\bbearer\s+)[^\s,;&\"']+"),
    # Base64, told from a word by a digit, a sign or a capital after a small letter: "Basic authentication" stays.
    re.compile(r"(\b[Bb](?:asic|ASIC)\s+)(?=[A-Za-z]*(?:[0-9+/=]|[a-z][A-Z]))[A-Za-z0-9+/]{4,}={0,2}(?![\w=\"'])"),
    re.compile(
        r"(?i)((?:password|passwd|passphrase|token|secret|credentials?|cookie|(?:api|access|private)[-_ ]?key)"
        rf"\\*[\"']?\s*[:=]\s*){_VALUE}"
    ),
    re.compile(r"(-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----).*?(?:-----END [A-Z ]{0,40}PRIVATE KEY-----|$)"),
    re.compile(r"(\beyJ)[\w-]{8,}\.[\w.-]+"),
)
_NO_DIGEST = r"(?!sha\d{3}:)"
"""An image is named ``name:tag@sha256:...``, which is no user at a host."""
_USER_INFO = (
    re.compile(rf"(?i)(\b[a-z][a-z0-9+.-]{{0,20}}://)[^\s/?#\"'<>]{{1,512}}@{_NO_DIGEST}"),
    # A password with a slash that nobody encoded; a port before the slash makes it a path.
    re.compile(
        rf"(?i)(\b[a-z][a-z0-9+.-]{{0,20}}://)[^\s/@:\"'<>]{{0,256}}:(?!\d{{1,5}}/)[^\s\"'<>]{{1,256}}@{_NO_DIGEST}"
    ),
    re.compile(rf"(?<![\w@])()[^\s/@:\"'<>=,;()]{{1,128}}:(?!//)[^\s\"'<>]{{1,256}}@(?=[\w\[]){_NO_DIGEST}"),
)
_REQUEST_ID = re.compile(
    r"(?i)\b((?:request|trace|operation|correlation|span)[-_ ]?id\\*[\"']?\s*[:=]\s*\\*[\"']?)[^\s,;\"'<>)\]}\\]+"
)
_DIFFERS_EACH_TIME = (
    re.compile(r"(?i)\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b"),
    re.compile(r"\boperation-\d{13}-[0-9a-f-]{8,}"),
    re.compile(r"\b\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?"),
    re.compile(r"\b(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d(?: GMT)?"),
    re.compile(r"(?<![:\w.])\d\d:\d\d:\d\d(?:[.,]\d+)?(?![:\w])"),
    re.compile(r"\b1[5-9]\d{8}(?:\.\d+|\d{3}|\d{6}|\d{9})?\b"),
    re.compile(r"\b0x[0-9a-f]{6,16}\b"),
)


def cut(text: str, limit: int = MESSAGE_LIMIT) -> str:
    """Return ``text`` in at most ``limit`` bytes of UTF-8, never ending inside a character."""
    encoded = text.encode("utf-8", "replace")
    if len(encoded) <= limit:
        return encoded.decode()
    return encoded[: limit - 3].decode("utf-8", "ignore") + "..."


def mask_secrets(text: str) -> str:
    """Return ``text`` with ``***`` in the place of everything that looks like a credential."""
    for pattern in _SECRETS:
        text = pattern.sub(r"\1***", text)
    for pattern in _USER_INFO:
        text = pattern.sub(r"\1***@", text)
    return text


def masked_line(text: str, limit: int) -> str:
    """Return ``text`` as one line of at most ``limit`` bytes without anything that looks like a credential."""
    return cut(mask_secrets(_beginning(text)), limit)


def clean_message(text: str) -> str:
    """Return error text fit for a status: one line, masked, cut, and equal for equal failures.

    Credentials become ``***``; request ids and times, which differ on every try, are taken out, so that a retry loop
    writes the same status again and therefore writes nothing. Text that is clean already stays as it is.
    """
    text = _beginning(text)
    # Cutting may leave half of something behind that reads as another thing; cleaning that once more settles it.
    for _ in range(3):
        cleaned = cut(_without_what_differs(mask_secrets(text)))
        if cleaned == text:
            break
        text = cleaned
    return text


def _beginning(text: str) -> str:
    """Return the first words of a text on one line; a word that does not fit is left out: it may be half a secret."""
    line = " ".join(text[: 16 * _WINDOW].split())
    if len(line) <= _WINDOW and len(text) <= 16 * _WINDOW:
        return line
    whole, _, _ = line[:_WINDOW].rpartition(" ")
    return (whole or line[:_WINDOW]) + " ..."


def _without_what_differs(text: str) -> str:
    text = _REQUEST_ID.sub(r"\1-", text)
    for pattern in _DIFFERS_EACH_TIME:
        text = pattern.sub("-", text)
    return text
