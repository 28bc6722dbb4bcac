"""The ``local`` block of the providers file."""

import ipaddress
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from model.errors import ConfigurationError
from providers import fields

LARGEST_NETWORK = 16
"""Shortest prefix: 65,534 addresses, more than one machine serves, and still quick to go through."""

_KEYS = ("addresses", "software", "stateDir")


class Software(StrEnum):
    """Which forward proxy runs."""

    AUTO = "auto"
    """squid when it is installed, else proxy.py."""
    SQUID = "squid"
    PROXY_PY = "proxy.py"


@dataclass(frozen=True, kw_only=True)
class LocalSettings:
    """Settings of one box.

    Attributes:
        software: Which forward proxy new instances get.
        networks: Where addresses come from; a single address is a network of one.
        state_dir: Absolute path of the folder with everything the box remembers.
    """

    software: Software
    networks: tuple[ipaddress.IPv4Network, ...]
    state_dir: Path

    def normalised(self) -> Mapping[str, Any]:
        """Return the settings as plain JSON values."""
        return {
            "software": self.software.value,
            "addresses": sorted(str(network) for network in self.networks),
            "stateDir": str(self.state_dir),
        }

    def exclusive_resource(self) -> str:
        """Return the state folder: two entries over one folder would list each other's instances."""
        return f"stateDir {self.state_dir}"

    def addresses(self) -> Iterator[str]:
        """Yield every usable address once, lowest first within a network; networks in ascending order."""
        seen: set[int] = set()
        for network in sorted(self.networks):
            for address in network.hosts():
                if int(address) not in seen:
                    seen.add(int(address))
                    yield str(address)


def parse_settings(block: Mapping[str, Any], place: str) -> LocalSettings:
    """Check the block.

    Raises:
        ConfigurationError: Starts with the place of the fault.
    """
    fields.check_keys(block, _KEYS, place)
    state_dir = fields.required_string(block, "stateDir", place)
    if not os.path.isabs(state_dir) or "\0" in state_dir:
        raise ConfigurationError(f"{place}.stateDir: must be an absolute path, not {state_dir[:200]!r}")
    return LocalSettings(
        software=_software(block, place),
        networks=_networks(block.get("addresses"), f"{place}.addresses"),
        state_dir=Path(os.path.normpath(state_dir)),
    )


def _software(block: Mapping[str, Any], place: str) -> Software:
    value = fields.optional_string(block, "software", place) or Software.AUTO.value
    try:
        return Software(value)
    except ValueError:
        known = ", ".join(Software)
        raise ConfigurationError(f"{place}.software: must be one of {known}, not {value[:80]!r}") from None


def _networks(value: Any, place: str) -> tuple[ipaddress.IPv4Network, ...]:
    if value is None:
        raise ConfigurationError(f"{place}: required")
    items = fields.sequence(value, place)
    if not items:
        raise ConfigurationError(f"{place}: must name at least one IPv4 address or network")
    return tuple(_network(item, f"{place}[{index}]") for index, item in enumerate(items))


def _network(item: Any, place: str) -> ipaddress.IPv4Network:
    if not isinstance(item, str):
        raise ConfigurationError(f"{place}: must be a string, not {fields.kind(item)}")
    try:
        network = ipaddress.IPv4Network(item)
    except ValueError as error:
        raise ConfigurationError(
            f"{place}: must be an IPv4 address or network such as 127.0.1.0/24, not {item[:80]!r}: {_reason(error)}"
        ) from None
    if network.prefixlen < LARGEST_NETWORK:
        raise ConfigurationError(f"{place}: {network} is too large; at most a /{LARGEST_NETWORK}")
    if network.is_multicast or network.is_unspecified or network.is_reserved:
        raise ConfigurationError(f"{place}: {network} cannot be addresses of a machine")
    return network


def _reason(error: ValueError) -> str:
    return "host bits are set" if "host bits" in str(error) else "not an IPv4 address"
