"""Where the API is and how patient a client is."""

import os
from dataclasses import dataclass, field
from urllib.parse import urlsplit

URL_VARIABLE = "EGRESS_PROXIES_URL"
TOKEN_VARIABLE = "EGRESS_PROXIES_TOKEN"  # noqa: S105 (the name of a variable, not a token)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Settings of a client.

    Attributes:
        base_url: The API's URL.
        token: The bearer token; "": none is sent.
        timeout: Seconds that one request may take.
        retry_for: Seconds for which a request is sent again while the API is unavailable.
    """

    base_url: str
    token: str = field(repr=False)
    timeout: float
    retry_for: float

    @property
    def headers(self) -> dict[str, str]:
        """The headers of every request."""
        return {"Authorization": f"Bearer {self.token}"} if self.token else {}


def settings_from(base_url: str | None, token: str | None, timeout: float, retry_for: float) -> Settings:
    """Return the settings; what is None comes from the environment.

    Raises:
        ValueError: There is no usable URL, or the token cannot stand in a header.
    """
    url = base_url if base_url is not None else os.environ.get(URL_VARIABLE, "")
    if urlsplit(url).scheme not in ("http", "https"):
        raise ValueError(f"base_url (or {URL_VARIABLE}) must be an http or https URL, got {url!r}")
    secret = token if token is not None else os.environ.get(TOKEN_VARIABLE, "")
    if not secret.isascii() or not secret.isprintable():
        raise ValueError(f"token (or {TOKEN_VARIABLE}) must be printable ASCII without line ends")
    return Settings(base_url=url.rstrip("/"), token=secret, timeout=timeout, retry_for=retry_for)
