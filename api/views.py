"""The JSON of proxies and leases."""

from datetime import UTC, datetime
from typing import Any

from model.lease_answers import Granted, NoMatch
from model.lease_operations import ProxyView


def proxy_json(proxy_id: str, view: ProxyView, active_leases: int) -> dict[str, Any]:
    """Return one proxy; empty attributes are left out."""
    attributes = {"attributes": view.attributes} if view.attributes else {}
    return {
        "id": proxy_id,
        "ip": view.ip,
        "port": view.port,
        **attributes,
        "phase": view.phase,
        "healthy": view.healthy,
        "latencyMillis": view.latency_millis,
        "activeLeases": active_leases,
        "maxLeases": view.max_leases,
    }


def lease_json(lease_id: str, granted: Granted) -> dict[str, Any]:
    """Return one lease."""
    return {
        "leaseID": lease_id,
        "proxy": proxy_json(granted.proxy_id, granted.view, granted.active_leases),
        "expiresAt": rfc3339(granted.expires_millis),
        # Rounded up: what a drain leaves of a renewal is no whole number of seconds, and may be less than one.
        "ttlSeconds": -(-granted.ttl_millis // 1000),
    }


def no_match_counts(refusal: NoMatch) -> dict[str, int]:
    """Return why nothing could be leased."""
    return {
        "considered": refusal.considered,
        "atCapacity": refusal.at_capacity,
        "inCooldown": refusal.in_cooldown,
        "unhealthy": refusal.unhealthy,
    }


def rfc3339(millis: int) -> str:
    """Return a Unix time as RFC 3339 in UTC."""
    moment = datetime.fromtimestamp(millis // 1000, UTC).replace(microsecond=millis % 1000 * 1000)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
