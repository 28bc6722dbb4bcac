"""The providerID of the ``local`` provider: ``local/<box id>/<instance name>``."""

import re

from model.errors import PermanentError
from providers.fields import DNS_LABEL

_BOX_ID = re.compile(r"[a-z2-7]{16}")


def is_box_id(text: str) -> bool:
    """Tell whether the text is 16 characters of base32 in lower case."""
    return _BOX_ID.fullmatch(text) is not None


def provider_id(box_id: str, name: str) -> str:
    """Return the id of the instance of that name on that box."""
    return f"local/{box_id}/{name}"


def parse(text: str) -> tuple[str, str]:
    """Return box id and instance name.

    Raises:
        PermanentError: The id is malformed.
    """
    kind, _, rest = text.partition("/")
    box_id, _, name = rest.partition("/")
    if kind != "local" or not is_box_id(box_id) or not DNS_LABEL.fullmatch(name):
        raise PermanentError(f"status.providerID: must be local/<box id>/<instance name>, not {text[:200]!r}")
    return box_id, name
