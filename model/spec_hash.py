"""The versioned hash of what an instance is made from."""

import hashlib
import json

from model.proxy import ProxySpec

VERSION = "v1"
"""Moves when the hash covers more fields. Hashes of different versions say nothing about each other."""


def spec_hash(spec: ProxySpec, cloud_init: str | None) -> str:
    """Return ``v1-<32 hex digits>`` over placement, resolved cloud-init and port.

    Key order and spelled-out defaults do not change it, and no cloud-init equals an empty one.

    Args:
        spec: The Proxy's spec, defaults filled in.
        cloud_init: The resolved user-data, or None where the spec has none.
    """
    placement = {
        "region": spec.placement.region,
        "zone": spec.placement.zone,
        "machineType": spec.placement.machine_type,
        "image": spec.placement.image,
    }
    covered = {
        "placement": {key: value for key, value in placement.items() if value},
        "cloudInit": hashlib.sha256((cloud_init or "").encode()).hexdigest(),
        "port": spec.port,
    }
    digest = hashlib.sha256(json.dumps(covered, sort_keys=True, separators=(",", ":")).encode())
    return f"{VERSION}-{digest.hexdigest()[:32]}"


def is_comparable(mark: str) -> bool:
    """Whether ``mark`` was made by the hash of this version, so that a difference means another spec."""
    return mark.startswith(f"{VERSION}-")
