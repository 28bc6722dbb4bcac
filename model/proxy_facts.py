"""From a workflow's state and a reading of the object to what other pure functions need."""

import dataclasses
from datetime import UTC, datetime

from model import names, proxy_replacement
from model.decide import Desired, Recorded
from model.failures import doubling_wait, failed_cause
from model.health import HEALTHY, UNHEALTHY, HealthChange, HealthState
from model.messages import LeasingView, ProxyReading, ProxyReference, WatchHealth
from model.proxy import Proxy, ProxyStatus
from model.proxy_state import InstanceRecord, ProxyState
from model.reasons import Cause, Provisioned
from model.status import CONDITION_HEALTHY, CONDITION_PROVISIONED, READY, Facts, Health

_STATUS_OF_VERDICT = {HEALTHY: "True", UNHEALTHY: "False"}


def rfc3339(moment: datetime) -> str:
    """Return a time with a zone as Kubernetes writes it: UTC, whole seconds."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def desired(reading: ProxyReading, state: ProxyState, now: float) -> Desired | None:
    """Return what the object asks for at a time in epoch seconds, or None when it is gone."""
    proxy = reading.proxy
    if proxy is None:
        return None
    cause = failed_cause(proxy.generation, reading.spec_hash, state.entry_hash, state.handled_retry)
    may_exist = state.instance is not None or state.create_may_land_until > 0
    ages_at = proxy_replacement.replace_at(state, proxy)
    remembered = proxy.deleting and state.route is not None and state.uid == proxy.uid and may_exist
    return Desired(
        uid=proxy.uid,
        managed=proxy.spec.managed,
        deleting=proxy.deleting,
        skip_cleanup=proxy.skips_cleanup,
        finalized=bool(proxy.our_finalizers) if proxy.deleting else names.FINALIZER in proxy.finalizers,
        provider_known=reading.route is not None or remembered,
        spec_hash=reading.spec_hash,
        failure_latched=bool(state.failed_cause) and state.failed_cause == cause,
        paused=proxy.is_paused,
        rotate=state.rotation_asked,
        too_old=ages_at is not None and now >= ages_at,
    )


def recorded(state: ProxyState, reading: ProxyReading) -> Recorded:
    """Return what is on record of the instance."""
    if state.instance is None:
        return Recorded(uid=state.uid)
    proxy = reading.proxy
    annotation = proxy.annotations.get(names.ANNOTATION_SPEC_HASH, "") if proxy is not None else ""
    replacing = state.replacing
    return Recorded(
        uid=state.uid,
        provider_id=state.instance.provider_id,
        spec_hash=annotation,
        rotating=replacing.incarnation if replacing is not None and replacing.cause is Cause.ROTATION else "",
    )


def adopt_object(state: ProxyState, proxy: Proxy) -> None:
    """Take up an object seen for the first time by this workflow, with all that its status remembers."""
    # By hand, before this workflow had read anything.
    rotation_asked = state.rotation_asked and not state.uid
    forget_object(state)
    status = proxy.status
    state.uid = proxy.uid
    state.managed = proxy.spec.managed
    state.provider = proxy.spec.provider
    state.status = status
    state.failed_cause = status.failed_cause
    first_ever = not status.phase
    annotations = proxy.annotations
    state.handled_retry = annotations.get(names.ANNOTATION_RETRY, "") if first_ever else status.handled_retry
    state.handled_rotate = annotations.get(names.ANNOTATION_ROTATE, "") if first_ever else status.handled_rotate
    state.create_sent = not first_ever
    if status.provider_id:
        state.instance = InstanceRecord(provider_id=status.provider_id, incarnation=status.incarnation, ip=status.ip)
        state.rotation_asked = rotation_asked
        state.replacing = proxy_replacement.begun_before(status, proxy)
    state.seen_rotate = state.handled_rotate
    condition = status.condition(CONDITION_HEALTHY)
    is_current = state.managed or status.observed_generation == proxy.generation
    if condition is not None and condition.status in ("True", "False") and is_current:
        state.proven = True
        state.health_subject = health_subject(state, proxy)
        state.health = Health(
            status=condition.status,
            reason=condition.reason,
            message=condition.message,
            latency_millis=status.latency_millis or 0,
            exit_ip=status.exit_ip,
            checked_at=status.last_health_check_time,
        )
        state.health_state = HealthState(verdict=HEALTHY if condition.status == "True" else UNHEALTHY)


def may_have_been_created(proxy: Proxy) -> bool:
    """Whether a create whose answer nobody took in may still take effect, for all that the status tells."""
    provisioned = proxy.status.condition(CONDITION_PROVISIONED)
    return (
        proxy.spec.managed
        and not proxy.status.provider_id
        and provisioned is not None
        and provisioned.reason in (Provisioned.CREATING, Provisioned.TRANSIENT_ERROR)
    )


def forget_object(state: ProxyState) -> None:
    """Clear all that belongs to one object; the order of what is told to the broker goes on."""
    fresh = ProxyState(namespace=state.namespace, name=state.name)
    kept = ("namespace", "name", "chain_start", "order", "watches")
    for field in dataclasses.fields(ProxyState):
        if field.name not in kept:
            setattr(state, field.name, getattr(fresh, field.name))


def forget_health(state: ProxyState) -> None:
    """Start the verdict afresh, as for a proxy that was never probed."""
    state.health = Health()
    state.health_state = HealthState()
    state.health_subject = ""


def health_subject(state: ProxyState, proxy: Proxy) -> str:
    """Return what a verdict would be about now: address and incarnation; "" when nothing runs."""
    if not state.managed:
        return f"{proxy.spec.endpoint_host}:{proxy.spec.endpoint_port}"
    instance = state.instance
    return f"{instance.ip}:{proxy.spec.port}#{instance.incarnation}" if instance is not None and state.runs else ""


def note_end(state: ProxyState, incarnation: str, now: float) -> None:
    """Take in that an instance has ended by itself; one that never passed a probe delays the next create.

    Without the delay an instance that dies at its start would be made again as fast as the backend can.
    """
    if not incarnation or incarnation == state.ended_incarnation:
        return
    state.ended_incarnation = incarnation
    state.early_ends = 0 if state.proven else state.early_ends + 1
    state.create_not_before = now + doubling_wait(state.early_ends) if state.early_ends else 0.0
    state.proven = False


def health_of(change: HealthChange) -> Health:
    """Return a change of health as the status shows it."""
    return Health(
        status=_STATUS_OF_VERDICT.get(change.verdict, "Unknown"),
        reason=change.reason,
        message=change.message,
        latency_millis=change.latency_millis,
        exit_ip=change.exit_ip,
        checked_at=change.checked_at,
    )


def facts(state: ProxyState, proxy: Proxy, reason: Provisioned, message: str, *, evaluated: bool = True) -> Facts:
    """Return what the status is made from; ``evaluated`` tells whether a step was decided for this generation."""
    instance = state.instance
    running = state.runs
    if proxy.is_paused:
        reason, message = Provisioned.PAUSED, "paused"
    elif running and not proxy.deleting and reason is not Provisioned.EXTERNAL:
        # While the provider cannot be asked, a running instance goes on serving; the message says what is wrong.
        message = message if reason is Provisioned.RUNNING or not message else f"{reason}: {message}"
        reason = Provisioned.RUNNING
    if state.replacing is not None and state.is_replacing and not proxy.deleting:
        # Whatever else there is to say: another workflow reads from it that the instance has to go.
        cause = str(state.replacing.cause)
        message = message if message.startswith(cause) else "; ".join(part for part in (cause, message) if part)
    return Facts(
        managed=state.managed,
        deleting=proxy.deleting,
        provisioned=running,
        reason=reason,
        message=message,
        latched=bool(state.failed_cause) and not running,
        paused=proxy.is_paused,
        failed_cause=state.failed_cause,
        ip=instance.ip if instance is not None else "",
        provider_id=instance.provider_id if instance is not None else "",
        incarnation=instance.incarnation if instance is not None else "",
        evaluated_generation=proxy.generation if evaluated else state.evaluated_generation,
        handled_retry=state.handled_retry,
        handled_rotate=state.handled_rotate,
        not_taken_on=state.not_taken_on,
        health=state.health,
    )


def leasing_view(state: ProxyState, proxy: Proxy, status: ProxyStatus) -> LeasingView:
    """Return what the broker has to know of a proxy whose status is ``status``.

    One that drains keeps its address there, so that holders of leases go on seeing it.
    """
    instance, replacing = state.instance, state.replacing
    view = view_of(proxy, status, instance.incarnation if instance is not None else "")
    if instance is None or replacing is None or not state.is_replacing or proxy.deleting or not replacing.drain_ends_at:
        return view
    return dataclasses.replace(view, ip=instance.ip, drain_ends_at=int(replacing.drain_ends_at * 1000))


def view_of(proxy: Proxy, status: ProxyStatus, incarnation: str) -> LeasingView:
    """Return the broker's view of an object with this status."""
    spec = proxy.spec
    host = status.ip if spec.managed else spec.endpoint_host
    healthy = status.phase == READY
    return LeasingView(
        ip=host,
        port=spec.effective_port,
        attributes=dict(spec.attributes),
        phase=status.phase,
        healthy=healthy,
        latency_millis=status.latency_millis or 0,
        max_leases=spec.max_leases,
        instance=incarnation if spec.managed else f"{host}:{spec.effective_port}",
        leasable=healthy and bool(host) and not proxy.deleting,
        deleting=proxy.deleting,
    )


def wanted_watch(state: ProxyState, proxy: Proxy) -> WatchHealth:
    """Return the watch that a running proxy needs."""
    instance = state.instance
    return WatchHealth(
        reference=ProxyReference(namespace=state.namespace, name=state.name, uid=state.uid),
        order=(state.chain_start, state.watches + 1),
        incarnation=instance.incarnation if state.managed and instance is not None else "",
        host=instance.ip if state.managed and instance is not None else proxy.spec.endpoint_host,
        port=proxy.spec.effective_port,
        check=proxy.spec.health_check,
        state=state.health_state,
    )


def same_target(one: WatchHealth, other: WatchHealth) -> bool:
    """Whether two watches probe the same thing in the same way."""
    return dataclasses.replace(one, order=other.order, state=other.state) == other
