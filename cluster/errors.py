"""What the Kubernetes API server may answer, as far as somebody handles it.

Retry rules: ``ClusterError`` and ``ClusterUnavailableError`` may pass, so Temporal retries them; the others are facts
about the object, which the caller handles by reading it again.
"""

from model.errors import EgressProxiesError


class ClusterError(EgressProxiesError):
    """The API server refused a request.

    Attributes:
        status: HTTP status, or the code of an ``ERROR`` event.
    """

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


class ObjectNotFoundError(ClusterError):
    """404: there is no such object."""


class ObjectConflictError(ClusterError):
    """409, or a failed precondition of a patch: the object is not the one the write was computed for."""


class ResourceExpiredError(ClusterError):
    """410: the resourceVersion or the continue token is too old; list anew."""


class UnreadableObjectError(ClusterError):
    """The object is not what its kind says: older than the schema, or written around it. A human has to mend it."""


class ClusterUnavailableError(ClusterError):
    """No answer: refused, reset or past the deadline."""


def error_for(status: int, message: str) -> ClusterError:
    """Return the error for an HTTP status or an event's code."""
    classes = {404: ObjectNotFoundError, 409: ObjectConflictError, 410: ResourceExpiredError}
    return classes.get(status, ClusterError)(message, status)
