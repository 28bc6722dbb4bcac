"""The Proxy object as plain data: what a user wrote, and what we report back."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from model import names

MODE_MANAGED = "Managed"


@dataclass(frozen=True, kw_only=True)
class Placement:
    """Where and from what a provider makes the instance; free strings that the provider judges."""

    region: str = ""
    zone: str = ""
    machine_type: str = ""
    image: str = ""


@dataclass(frozen=True, kw_only=True)
class CloudInit:
    """Source of the user-data: the text itself, or a key of a labelled Secret in the Proxy's namespace."""

    inline: str = field(default="", repr=False)
    secret_name: str = ""
    secret_key: str = ""


@dataclass(frozen=True, kw_only=True)
class HealthCheck:
    """How the proxy is probed; times in seconds."""

    probe_url: str = "https://www.gstatic.com/generate_204"
    interval_seconds: int = 10
    timeout_seconds: int = 5
    failure_threshold: int = 3
    success_threshold: int = 1
    expected_status_codes: tuple[int, ...] = (200, 204)


@dataclass(frozen=True, kw_only=True)
class ProxySpec:
    """``spec`` of a Proxy, with the CRD's defaults filled in."""

    mode: str
    provider: str = ""
    placement: Placement = field(default_factory=Placement)
    cloud_init: CloudInit | None = None
    endpoint_host: str = ""
    endpoint_port: int = 3128
    port: int = 3128
    attributes: Mapping[str, str] = field(default_factory=dict)
    max_leases: int = 5
    health_check: HealthCheck = field(default_factory=HealthCheck)
    paused: bool = False
    drain_seconds: int = 0
    max_age_seconds: int | None = None

    @property
    def managed(self) -> bool:
        """Whether we make and remove the instance."""
        return self.mode == MODE_MANAGED

    @property
    def effective_port(self) -> int:
        """The port that clients and probes connect to."""
        return self.port if self.managed else self.endpoint_port


@dataclass(frozen=True, kw_only=True)
class Condition:
    """One entry of ``status.conditions``; ``last_transition_time`` is RFC 3339 in UTC."""

    type: str
    status: str
    reason: str
    message: str = ""
    observed_generation: int = 0
    last_transition_time: str = ""


@dataclass(frozen=True, kw_only=True)
class ProxyStatus:
    """``status`` of a Proxy; empty strings and ``None`` are left out of the object."""

    phase: str = ""
    ip: str = ""
    provider_id: str = ""
    incarnation: str = ""
    latency_millis: int | None = None
    last_health_check_time: str = ""
    exit_ip: str = ""
    observed_generation: int = 0
    failed_cause: str = ""
    handled_retry: str = ""
    handled_rotate: str = ""
    conditions: tuple[Condition, ...] = ()

    def condition(self, type_: str) -> Condition | None:
        """Return the condition of that type."""
        return next((condition for condition in self.conditions if condition.type == type_), None)


@dataclass(frozen=True, kw_only=True)
class Proxy:
    """One Proxy object."""

    namespace: str
    name: str
    uid: str
    generation: int
    resource_version: str = ""
    deleting: bool = False
    annotations: Mapping[str, str] = field(default_factory=dict)
    finalizers: tuple[str, ...] = ()
    spec: ProxySpec
    status: ProxyStatus = field(default_factory=ProxyStatus)

    @property
    def id(self) -> str:
        """The id in the lease API."""
        return names.proxy_id(self.namespace, self.name)

    @property
    def host(self) -> str:
        """Where the proxy listens: the endpoint's host, or the running instance's address ("" while there is none)."""
        return self.status.ip if self.spec.managed else self.spec.endpoint_host

    @property
    def skips_cleanup(self) -> bool:
        """Whether a human abandons the instance."""
        return self.annotations.get(names.ANNOTATION_SKIP_CLEANUP) == "true"

    @property
    def is_paused(self) -> bool:
        """Whether a human froze it; a deletion overrides that."""
        return self.spec.paused and not self.deleting

    @property
    def our_finalizers(self) -> tuple[str, ...]:
        """Finalizers that are ours to release, those of the reference operator included."""
        return tuple(name for name in self.finalizers if name.startswith(names.FINALIZER_PREFIX))


def proxy_from_object(body: Mapping[str, Any]) -> Proxy:
    """Read a Proxy from its Kubernetes JSON; what is absent gets the CRD's default."""
    metadata = body["metadata"]
    return Proxy(
        namespace=metadata["namespace"],
        name=metadata["name"],
        uid=metadata["uid"],
        generation=metadata.get("generation", 0),
        resource_version=metadata.get("resourceVersion", ""),
        deleting="deletionTimestamp" in metadata,
        annotations=dict(metadata.get("annotations") or {}),
        finalizers=tuple(metadata.get("finalizers") or ()),
        spec=_spec_from_object(body.get("spec") or {}),
        status=_status_from_object(body.get("status") or {}),
    )


def _spec_from_object(spec: Mapping[str, Any]) -> ProxySpec:
    placement = spec.get("placement") or {}
    endpoint = spec.get("endpoint") or {}
    return ProxySpec(
        mode=spec.get("mode", MODE_MANAGED),
        provider=spec.get("provider", ""),
        placement=Placement(
            region=placement.get("region", ""),
            zone=placement.get("zone", ""),
            machine_type=placement.get("machineType", ""),
            image=placement.get("image", ""),
        ),
        cloud_init=_cloud_init_from_object(spec.get("cloudInit")),
        endpoint_host=endpoint.get("host", ""),
        endpoint_port=endpoint.get("port", 3128),
        port=spec.get("port", 3128),
        attributes=dict(spec.get("attributes") or {}),
        max_leases=spec.get("maxLeases", 5),
        health_check=_health_check_from_object(spec.get("healthCheck") or {}),
        paused=spec.get("paused", False),
        drain_seconds=spec.get("drainSeconds", 0),
        max_age_seconds=spec.get("maxAgeSeconds"),
    )


def _cloud_init_from_object(source: Mapping[str, Any] | None) -> CloudInit | None:
    if not source:
        return None
    reference = source.get("secretRef") or {}
    return CloudInit(
        inline=source.get("inline", ""),
        secret_name=reference.get("name", ""),
        secret_key=reference.get("key", ""),
    )


def _health_check_from_object(check: Mapping[str, Any]) -> HealthCheck:
    default = HealthCheck()
    return HealthCheck(
        probe_url=check.get("probeURL", default.probe_url),
        interval_seconds=check.get("intervalSeconds", default.interval_seconds),
        timeout_seconds=check.get("timeoutSeconds", default.timeout_seconds),
        failure_threshold=check.get("failureThreshold", default.failure_threshold),
        success_threshold=check.get("successThreshold", default.success_threshold),
        expected_status_codes=tuple(check.get("expectedStatusCodes") or default.expected_status_codes),
    )


def _status_from_object(status: Mapping[str, Any]) -> ProxyStatus:
    handled = status.get("handled") or {}
    return ProxyStatus(
        phase=status.get("phase", ""),
        ip=status.get("ip", ""),
        provider_id=status.get("providerID", ""),
        incarnation=status.get("incarnation", ""),
        latency_millis=status.get("latencyMillis"),
        last_health_check_time=status.get("lastHealthCheckTime", ""),
        exit_ip=status.get("exitIP", ""),
        observed_generation=status.get("observedGeneration", 0),
        failed_cause=status.get("failedCause", ""),
        handled_retry=handled.get("retry", ""),
        handled_rotate=handled.get("rotate", ""),
        conditions=tuple(
            Condition(
                type=condition["type"],
                status=condition["status"],
                reason=condition.get("reason", ""),
                message=condition.get("message", ""),
                observed_generation=condition.get("observedGeneration", 0),
                last_transition_time=condition.get("lastTransitionTime", ""),
            )
            for condition in status.get("conditions") or ()
        ),
    )


def status_to_object(status: ProxyStatus) -> dict[str, Any]:
    """Return the JSON of a status; empty values are left out, so that a replace removes them from the object."""
    handled = {"retry": status.handled_retry, "rotate": status.handled_rotate}
    body: dict[str, Any] = {
        "phase": status.phase,
        "ip": status.ip,
        "providerID": status.provider_id,
        "incarnation": status.incarnation,
        "latencyMillis": status.latency_millis,
        "lastHealthCheckTime": status.last_health_check_time,
        "exitIP": status.exit_ip,
        "observedGeneration": status.observed_generation or None,
        "failedCause": status.failed_cause,
        "handled": {key: value for key, value in handled.items() if value},
        "conditions": [
            {
                "type": condition.type,
                "status": condition.status,
                "reason": condition.reason,
                "message": condition.message,
                "observedGeneration": condition.observed_generation,
                "lastTransitionTime": condition.last_transition_time,
            }
            for condition in status.conditions
        ],
    }
    return {key: value for key, value in body.items() if value not in (None, "", {}, [])}
