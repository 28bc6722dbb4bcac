"""How the replacement of an instance is asked for, begins, and is taken up again by another workflow."""

import hashlib
from datetime import datetime

from model import names
from model.proxy import Proxy, ProxyStatus
from model.proxy_state import ProxyState, Replacement
from model.reasons import Cause
from model.status import CONDITION_PROVISIONED

_AGE_SPREAD = 0.1


def replace_at(state: ProxyState, proxy: Proxy) -> float | None:
    """Return when the instance on record reaches its age, in epoch seconds, or None when it never does.

    The age is the maximum less up to a tenth, a different part for each instance, so that a fleet made at once is not
    replaced at once; it never lies beyond the maximum.
    """
    instance, maximum = state.instance, proxy.spec.max_age_seconds
    if instance is None or not instance.created_at or maximum is None:
        return None
    digest = hashlib.sha256(f"{state.uid}/{instance.incarnation}".encode()).digest()
    part = int.from_bytes(digest[:8], "big") / 2**64
    return instance.created_at + maximum * (1.0 - _AGE_SPREAD * part)


def ask_for_rotation(state: ProxyState) -> bool:
    """Take in that a human wants another instance; False where there is none to replace.

    Before the object was read once, nobody knows; ``take_rotation`` settles it then.
    """
    asked = not state.uid or (state.managed and state.instance is not None)
    state.rotation_asked = state.rotation_asked or asked
    return asked


def take_rotation(state: ProxyState, proxy: Proxy) -> None:
    """Take in the rotate annotation; without an instance to replace, a new value counts as handled."""
    value = proxy.annotations.get(names.ANNOTATION_ROTATE, "")
    if value in ("", state.seen_rotate):
        return
    state.seen_rotate = value
    if state.managed and state.instance is not None:
        state.rotation_asked = True
    else:
        state.handled_rotate = value


def settle_rotation(state: ProxyState) -> None:
    """What was asked for so far is met: the instance it was about has gone, or its replacement begins."""
    state.rotation_asked = False
    state.handled_rotate = state.seen_rotate or state.handled_rotate


def begin(state: ProxyState, proxy: Proxy, cause: Cause, now: float) -> None:
    """Note that the instance on record has to go; one that is being replaced already keeps its cause and its drain."""
    instance = state.instance
    if instance is None or state.is_replacing:
        return
    drain = proxy.spec.drain_seconds if instance.ip else 0
    state.replacing = Replacement(
        incarnation=instance.incarnation, cause=cause, drain_ends_at=now + drain if drain else 0.0
    )
    settle_rotation(state)


def begun_before(status: ProxyStatus, proxy: Proxy) -> Replacement | None:
    """Return the replacement that a status tells of; the workflow that began it may be gone."""
    condition = status.condition(CONDITION_PROVISIONED)
    if condition is None or condition.status == "True" or not status.incarnation:
        return None
    cause = next((cause for cause in Cause if condition.message.startswith(cause)), None)
    if cause is None:
        return None
    # The condition turned False when the replacement began.
    drains = proxy.spec.drain_seconds and cause is not Cause.STOPPED
    began = _epoch_seconds(condition.last_transition_time) if drains else 0.0
    return Replacement(
        incarnation=status.incarnation, cause=cause, drain_ends_at=began + proxy.spec.drain_seconds if began else 0.0
    )


def _epoch_seconds(time: str) -> float:
    """Return an RFC 3339 time as seconds, 0 for what is none: anybody may have written it."""
    try:
        moment = datetime.fromisoformat(time)
    except ValueError:
        return 0.0
    return moment.timestamp() if moment.tzinfo is not None else 0.0
