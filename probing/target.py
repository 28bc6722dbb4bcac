"""The probe URL, taken apart into what goes on the wire."""

import base64
import ipaddress
import re
from dataclasses import dataclass, field
from urllib.parse import SplitResult, quote, unquote, urlsplit

from model.errors import ConfigurationError

_HOST_NAME = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9._-]*[A-Za-z0-9_])?")
_DEFAULT_PORTS = {"http": 80, "https": 443}
_PATH_SAFE = "/%:@!$&'()*+,;=~"
_QUERY_SAFE = _PATH_SAFE + "?"


def host_and_port(host: str, port: int) -> str:
    """Return ``host:port`` with an IPv6 address in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


@dataclass(frozen=True, kw_only=True)
class ProbeTarget:
    """What a probe asks for.

    Attributes:
        secure: Whether it is an https URL.
        host: DNS name as A-labels, or IP address without brackets.
        path: Path and query, percent-encoded, at least ``/``.
        authorization: Value of the Authorization header from the URL's user information, or "".
    """

    secure: bool
    host: str
    port: int
    path: str
    authorization: str = field(default="", repr=False)

    @property
    def authority(self) -> str:
        """``host:port`` as CONNECT wants it, and as messages name it."""
        return host_and_port(self.host, self.port)

    @property
    def host_header(self) -> str:
        """The Host header: without the scheme's default port, as browsers send it."""
        if self.port == _DEFAULT_PORTS["https" if self.secure else "http"]:
            return self.authority.rpartition(":")[0]
        return self.authority

    @property
    def absolute_url(self) -> str:
        """The URL without user information, as a proxy wants it for a plain http request."""
        return f"{'https' if self.secure else 'http'}://{self.host_header}{self.path}"


def parse_target(url: str) -> ProbeTarget:
    """Take a probe URL apart. Host names become A-labels by IDNA 2003 (RFC 3490).

    Raises:
        ConfigurationError: It is no http or https URL with a host; the message never repeats the URL, which may hold
            credentials.
    """
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise ConfigurationError(_refusal("its host or port is malformed")) from error
    if parts.scheme not in _DEFAULT_PORTS:
        raise ConfigurationError(_refusal("its scheme is neither http nor https"))
    if port == 0:
        raise ConfigurationError(_refusal("its port is 0"))
    query = "?" + quote(parts.query, safe=_QUERY_SAFE) if parts.query else ""
    return ProbeTarget(
        secure=parts.scheme == "https",
        host=_host(parts.hostname or ""),
        port=port or _DEFAULT_PORTS[parts.scheme],
        path=quote(parts.path or "/", safe=_PATH_SAFE) + query,
        authorization=_authorization(parts),
    )


def _refusal(what: str) -> str:
    return f"healthCheck.probeURL cannot be used: {what}; write it as https://host[:port]/path"


def _host(host: str) -> str:
    try:
        return str(ipaddress.IPv6Address(host) if ":" in host else ipaddress.IPv4Address(host))
    except ValueError:
        pass
    try:
        name = host.encode("idna").decode().rstrip(".")
    except UnicodeError as error:
        raise ConfigurationError(_refusal("its host is no DNS name")) from error
    if not _HOST_NAME.fullmatch(name):
        raise ConfigurationError(_refusal("its host is no DNS name and no IP address"))
    return name


def _authorization(parts: SplitResult) -> str:
    if parts.username is None:
        return ""
    pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return "Basic " + base64.b64encode(pair.encode()).decode()
