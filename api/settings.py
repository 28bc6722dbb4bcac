"""What the API is started with."""

import ipaddress
from dataclasses import dataclass, field
from datetime import timedelta

from model.addresses import split_host_port
from model.errors import ConfigurationError

_LOOPBACK_NAMES = ("localhost", "localhost.localdomain", "ip6-localhost")


@dataclass(frozen=True, kw_only=True)
class ApiSettings:
    """Settings of the API.

    Attributes:
        discovery_addr: ``host:port`` to listen on; no host means every address, port 0 a free one.
        token: The bearer token; empty: none is asked for.
        max_lease_ttl: The longest lease.
        lease_cooldown: How long a proxy rests after a bad report, and how long an ended lease can be reported on.
        allow_unauthenticated: Serve beyond loopback without a token.
    """

    discovery_addr: str = ":8090"
    token: bytes = field(default=b"", repr=False)
    max_lease_ttl: timedelta = timedelta(hours=1)
    lease_cooldown: timedelta = timedelta(minutes=15)
    allow_unauthenticated: bool = False

    def __post_init__(self) -> None:
        if self.max_lease_ttl < timedelta(seconds=1):
            raise ConfigurationError(f"--max-lease-ttl must be at least 1s, got {self.max_lease_ttl}")
        if self.lease_cooldown <= timedelta(0):
            raise ConfigurationError(f"--lease-cooldown must be positive, got {self.lease_cooldown}")

    @property
    def max_ttl_seconds(self) -> int:
        """The longest lease in whole seconds."""
        return int(self.max_lease_ttl.total_seconds())

    @property
    def cooldown_millis(self) -> int:
        """The cooldown in milliseconds."""
        return int(self.lease_cooldown.total_seconds() * 1000)


def parse_address(address: str) -> tuple[str, int]:
    """Split ``host:port``; IPv6 addresses stand in brackets, and "" as host means every address.

    Raises:
        ConfigurationError: It is no such address.
    """
    parts = split_host_port(address)
    if parts is None:
        raise ConfigurationError(f"--discovery-addr must be host:port or :port, got {address!r}")
    host, port = parts
    if host.startswith("[") and host.endswith("]"):
        return host[1:-1], port
    if ":" in host:
        raise ConfigurationError(f"--discovery-addr must have an IPv6 address in brackets, got {address!r}")
    return host, port


def check_exposure(settings: ApiSettings) -> None:
    """Refuse to serve everyone without a token.

    Raises:
        ConfigurationError: No token, an address beyond loopback, and nobody said that this is wanted.
    """
    host, _ = parse_address(settings.discovery_addr)
    if settings.token or settings.allow_unauthenticated or is_loopback(host):
        return
    raise ConfigurationError(
        f"--discovery-addr {settings.discovery_addr!r} reaches beyond loopback and DISCOVERY_TOKEN is empty: "
        "set a token, listen on 127.0.0.1, or pass --allow-unauthenticated"
    )


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches the host."""
    if host.lower() in _LOOPBACK_NAMES:
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
