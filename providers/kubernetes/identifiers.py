"""The providerID of the ``kubernetes`` provider: ``<namespace>/<Pod>``, as the reference operator writes it."""

from model.errors import PermanentError
from providers.fields import DNS_LABEL


def provider_id(namespace: str, name: str) -> str:
    """Return the id of the Pod of that name in that namespace."""
    return f"{namespace}/{name}"


def parse(text: str) -> tuple[str, str]:
    """Return namespace and Pod name.

    Raises:
        PermanentError: The id is malformed.
    """
    namespace, _, name = text.partition("/")
    if not DNS_LABEL.fullmatch(namespace) or not DNS_LABEL.fullmatch(name):
        raise PermanentError(f"status.providerID: must be <namespace>/<Pod>, not {text[:200]!r}")
    return namespace, name
