"""The schemas of what the API reads and writes, each in one place."""

from typing import Any

from api.lease_requests import DEFAULT_TTL_SECONDS, RELAXED, SESSION_MODES
from api.settings import ApiSettings
from model.lease_operations import RESULTS, SELECTOR_PAIRS_LIMIT, SESSION_LIMIT, TEXT_LIMIT

Schema = dict[str, Any]

JSON_TYPE = "application/json"

PROXY = "Proxy"
PROXY_LIST = "ProxyList"
LEASE_REQUEST = "LeaseRequest"
LEASE = "Lease"
RENEW_REQUEST = "RenewRequest"
REPORT_REQUEST = "ReportRequest"
ERROR = "Error"
NO_MATCH = "NoMatch"
SESSION_UNAVAILABLE = "SessionUnavailable"

PROXY_EXAMPLE: Schema = {
    "id": "default/proxy-eu-1",
    "ip": "10.0.0.9",
    "port": 3128,
    "attributes": {"geo": "eu"},
    "phase": "Ready",
    "healthy": True,
    "latencyMillis": 42,
    "activeLeases": 1,
    "maxLeases": 5,
}
LEASE_ID_EXAMPLE = "P3X6HHQTPCM5UTGVGE3B5UPS3A"
LEASE_EXAMPLE: Schema = {
    "leaseID": LEASE_ID_EXAMPLE,
    "proxy": PROXY_EXAMPLE,
    "expiresAt": "2026-08-11T22:05:00.417Z",
    "ttlSeconds": 300,
}


_RESULT_WORDS = (
    "How it went. `ok`: nothing changes. `rate_limited`, `banned`, `geo_blocked`, `captcha`: the proxy rests from the "
    "target for the cooldown time, or from every target when neither the report nor the lease names one. "
    "`transport_error`: no answer came through the proxy; the first such report takes it out until a probe has looked. "
    "`target_error`: the site's own fault; nothing changes."
)


def ref(name: str) -> Schema:
    """Return a reference to a schema by its name."""
    return {"$ref": f"#/components/schemas/{name}"}


def text(limit: int, description: str = "") -> Schema:
    """Return the schema of a text of at most ``limit`` bytes of UTF-8; JSON Schema itself counts characters."""
    described = {"description": description} if description else {}
    return {"type": "string", "maxLength": limit, "x-maxBytes": limit, **described}


def optional(schema: Schema) -> Schema:
    """Return the schema with null, which counts as absent."""
    return {**schema, "type": [schema["type"], "null"]}


def schemas(settings: ApiSettings) -> dict[str, Schema]:
    """Return every schema by its name."""
    return {
        PROXY: _proxy(),
        PROXY_LIST: _proxy_list(),
        LEASE_REQUEST: _lease_request(settings),
        LEASE: _lease(settings),
        RENEW_REQUEST: _renew_request(settings),
        REPORT_REQUEST: _report_request(),
        ERROR: _error(),
        NO_MATCH: _no_match(),
        SESSION_UNAVAILABLE: _session_unavailable(),
    }


def _object(description: str, required: dict[str, Schema], others: dict[str, Schema] | None = None) -> Schema:
    return {
        "type": "object",
        "description": description,
        "properties": {**required, **(others or {})},
        **({"required": list(required)} if required else {}),
    }


def _count(description: str) -> Schema:
    return {"type": "integer", "minimum": 0, "description": description}


def _time(description: str) -> Schema:
    return {"type": "string", "format": "date-time", "pattern": "Z$", "description": f"{description} RFC 3339, UTC."}


def _lease_id() -> Schema:
    return {"type": "string", "pattern": "^[A-Z2-7]{26}$", "description": "The lease's id: 26 base32 characters."}


def _proxy() -> Schema:
    attributes = {
        "type": "object",
        "minProperties": 1,
        "additionalProperties": {"type": "string"},
        "description": "`spec.attributes`; left out when there are none.",
    }
    phases = ["Pending", "Provisioning", "Ready", "Unhealthy", "Deleting", "Failed"]
    required: dict[str, Schema] = {
        "id": {"type": "string", "description": "`namespace/name` of the Proxy."},
        "ip": {"type": "string", "description": "Address or name to connect to; empty while there is none."},
        "port": {"type": "integer", "minimum": 1, "maximum": 65535, "description": "Port to connect to."},
        "phase": {"type": "string", "enum": phases, "description": "`status.phase`."},
        "healthy": {"type": "boolean", "description": "Whether the probes through the proxy succeed."},
        "latencyMillis": _count("Latency of a recent probe, in milliseconds; 0 before the first."),
        "activeLeases": _count("Leases that are running now."),
        "maxLeases": _count("Most leases at a time; 0: never leased."),
    }
    schema = _object("A proxy as the lease broker knows it.", required, {"attributes": attributes})
    return {**schema, "examples": [PROXY_EXAMPLE]}


def _proxy_list() -> Schema:
    required: dict[str, Schema] = {
        "proxies": {"type": "array", "items": ref(PROXY), "description": "In order of `id`."},
        "count": _count("How many there are in this answer."),
    }
    more = {"type": "string", "description": "Set while there are more: the value of `continue` for the next page."}
    return _object("Proxies that match the filter.", required, {"continue": more})


def _ttl_seconds(settings: ApiSettings, description: str) -> Schema:
    longest = settings.max_ttl_seconds
    return {
        "type": ["integer", "null"],
        "minimum": 0,
        "maximum": longest,
        "default": min(DEFAULT_TTL_SECONDS, longest),
        "description": f"{description} Written without a fraction; 0 counts as absent.",
    }


def _lease_request(settings: ApiSettings) -> Schema:
    fields = {
        "selector": {
            "type": ["object", "null"],
            "maxProperties": SELECTOR_PAIRS_LIMIT,
            "propertyNames": text(TEXT_LIMIT),
            "additionalProperties": text(TEXT_LIMIT),
            "description": "Attributes that the proxy must have; every pair must match.",
        },
        "ttlSeconds": _ttl_seconds(settings, "How long the lease lasts."),
        "target": optional(text(TEXT_LIMIT, "The site to crawl: proxies that rest from it are left out.")),
        "session": optional(
            text(
                SESSION_LIMIT,
                "A name of your choice: leases of the same session get the same proxy while it can be leased. "
                "A session is forgotten 15 minutes after its last lease ended.",
            )
        ),
        "sessionMode": {
            "type": ["string", "null"],
            "enum": [*SESSION_MODES, None],
            "default": RELAXED,
            "description": "When the session's proxy cannot be leased: `relaxed` moves the session to another one, "
            "`strict` answers 409 `session_unavailable`.",
        },
    }
    description = (
        "What is asked of the proxy. Every field is optional, null and an empty text count as absent, and other fields "
        "are ignored."
    )
    return _object(description, {}, fields)


def _renew_request(settings: ApiSettings) -> Schema:
    ttl = _ttl_seconds(settings, "How long the lease lasts from now on.")
    return _object("Every field is optional, and other fields are ignored.", {}, {"ttlSeconds": ttl})


def _lease(settings: ApiSettings) -> Schema:
    ttl = {
        "type": "integer",
        "minimum": 1,
        "maximum": settings.max_ttl_seconds,
        "description": "How long the lease was granted or renewed for, rounded up.",
    }
    required: dict[str, Schema] = {
        "leaseID": _lease_id(),
        "proxy": {"allOf": [ref(PROXY)], "description": "The proxy to use; its `activeLeases` counts this lease."},
        "expiresAt": _time("When the lease ends."),
        "ttlSeconds": ttl,
    }
    return {**_object("A lease.", required), "examples": [LEASE_EXAMPLE]}


def _report_request() -> Schema:
    result = {"type": "string", "enum": list(RESULTS), "description": _RESULT_WORDS}
    target = text(TEXT_LIMIT, "The site in question; absent: the lease's own target.")
    return _object("A report. Other fields are ignored.", {"result": result}, {"target": optional(target)})


def _error() -> Schema:
    required = {
        "error": {"type": "string", "description": "The machine code."},
        "message": {"type": "string", "description": "The same for humans; its words may change."},
    }
    return _object("The envelope of every answer that is no success.", required)


def _no_match() -> Schema:
    required = {
        "error": {"type": "string", "const": "no_match", "description": "The machine code."},
        "message": {"type": "string", "description": "The same for humans."},
        "considered": _count("Proxies that match the selector. Each one is in at most one of the other counts."),
        "atCapacity": _count("Those with `maxLeases` leases."),
        "inCooldown": _count("Those that rest from this target, or from all."),
        "unhealthy": _count("Those that are not healthy or not to be handed out now."),
    }
    return _object("Why no proxy could be leased.", required, {"earliestAvailable": _earliest()})


def _session_unavailable() -> Schema:
    required = {
        "error": {"type": "string", "const": "session_unavailable", "description": "The machine code."},
        "message": {"type": "string", "description": "The same for humans."},
    }
    described = "Why a strict session got no lease."
    return _object(described, required, {"earliestAvailable": _earliest()})


def _earliest() -> Schema:
    return _time(
        "When time alone makes a proxy free, as leases and cooldowns are now; absent where waiting is no help."
    )
