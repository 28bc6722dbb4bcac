"""Which changes of a Proxy's status a human wants to see in ``kubectl describe``."""

from model import status as wording
from model.messages import ObjectEvent
from model.proxy import Condition, ProxyStatus
from model.reasons import Provisioned

HEALTHY = "Healthy"
UNHEALTHY = "Unhealthy"
LEASE_BROKER_FULL = "LeaseBrokerFull"

_WARNINGS = {
    Provisioned.QUOTA_EXCEEDED: "the provider has no capacity now",
    Provisioned.ACCESS_DENIED: "the provider refused the credentials",
    Provisioned.CLOUD_INIT_ERROR: "the cloud-init cannot be read",
    Provisioned.PROVIDER_NOT_CONFIGURED: "the providers config has no such provider",
    Provisioned.PERMANENT_ERROR: "the provider refused the request for good",
    Provisioned.TRANSIENT_ERROR: "the provider did not answer",
    Provisioned.NAME_TAKEN: "an instance of that name belongs to somebody else",
    Provisioned.NO_WORKER: "no worker serves the provider's task queue",
    Provisioned.INSTANCE_STOPPED: "the instance stopped",
    Provisioned.INSTANCE_MISSING: "the instance is gone",
}
_STEPS = {
    Provisioned.CREATING: "making an instance",
    Provisioned.REPLACING: "the instance is replaced",
    Provisioned.PAUSED: "no provider calls and no leases until spec.paused is false",
}


def events_of(previous: ProxyStatus, status: ProxyStatus) -> list[ObjectEvent]:
    """Return what the change from one status to the next means to a human, at most one event per reason.

    Other messages, times, latencies or addresses of the target are no event, so a retry loop makes none.
    """
    events = [
        *_provisioned(previous, status),
        *_deleting(previous, status),
        *_health(previous, status),
        *_not_taken_on(previous, status),
    ]
    return list({event.reason: event for event in reversed(events)}.values())[::-1]


def _provisioned(previous: ProxyStatus, status: ProxyStatus) -> list[ObjectEvent]:
    now = status.condition(wording.CONDITION_PROVISIONED)
    if now is None:
        return []
    if now.reason == Provisioned.RUNNING:
        is_new = not _was(previous, wording.CONDITION_PROVISIONED, now) or _instance(previous) != _instance(status)
        return [ObjectEvent(warning=False, reason=now.reason, message=f"running at {status.ip}")] if is_new else []
    if _was(previous, wording.CONDITION_PROVISIONED, now):
        return []
    for texts, warning in ((_WARNINGS, True), (_STEPS, False)):
        text = next((text for reason, text in texts.items() if reason == now.reason), None)
        if text is not None:
            return [ObjectEvent(warning=warning, reason=now.reason, message=now.message or text)]
    return []


def _deleting(previous: ProxyStatus, status: ProxyStatus) -> list[ObjectEvent]:
    if status.phase != wording.DELETING or previous.phase == wording.DELETING:
        return []
    return [ObjectEvent(warning=False, reason=Provisioned.DELETING, message="deleting what belongs to it")]


def _health(previous: ProxyStatus, status: ProxyStatus) -> list[ObjectEvent]:
    before, now = (one.condition(wording.CONDITION_HEALTHY) for one in (previous, status))
    if now is None:
        return []
    changed = before is None or before.status != now.status
    if now.status == "True":
        return [ObjectEvent(warning=False, reason=HEALTHY, message="a probe through it succeeded")] if changed else []
    if now.status == "False":
        text = ": ".join(filter(None, (now.reason, now.message)))
        return [ObjectEvent(warning=True, reason=UNHEALTHY, message=text)] if changed else []
    if now.reason == Provisioned.NO_WORKER and not _was(previous, wording.CONDITION_HEALTHY, now):
        return [ObjectEvent(warning=True, reason=now.reason, message=now.message or "no worker probes it")]
    return []


def _not_taken_on(previous: ProxyStatus, status: ProxyStatus) -> list[ObjectEvent]:
    now = status.condition(wording.CONDITION_READY)
    if now is None or now.reason != LEASE_BROKER_FULL or _was(previous, wording.CONDITION_READY, now):
        return []
    return [ObjectEvent(warning=True, reason=now.reason, message=now.message)]


def _was(previous: ProxyStatus, type_: str, now: Condition) -> bool:
    before = previous.condition(type_)
    return before is not None and before.reason == now.reason


def _instance(status: ProxyStatus) -> tuple[str, str]:
    return status.incarnation, status.ip
