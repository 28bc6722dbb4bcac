"""The next step of a proxy, as a pure function of what is wanted, what is recorded and what is there."""

from dataclasses import dataclass
from enum import StrEnum

from model import spec_hash
from model.instance import InstanceState
from model.reasons import Cause, Provisioned


class Presence(StrEnum):
    """What is known of the instance of this name."""

    UNKNOWN = "Unknown"
    """Nobody asked the provider since something happened."""
    ABSENT = "Absent"
    COMING = "Coming"
    RUNNING = "Running"
    STOPPED = "Stopped"


PRESENCE_OF_STATE = {
    InstanceState.COMING: Presence.COMING,
    InstanceState.RUNNING: Presence.RUNNING,
    InstanceState.STOPPED: Presence.STOPPED,
}


@dataclass(frozen=True, kw_only=True)
class Desired:
    """What the object asks for.

    Attributes:
        uid: The object's uid.
        finalized: Whether the object carries a finalizer of ours.
        provider_known: Whether the provider is configured, or its queue is remembered from before.
        spec_hash: Versioned hash of the spec, or "" where cloud-init cannot be read.
        failure_latched: Whether a permanent failure stands whose cause has not changed.
        paused: Whether a human froze the proxy.
        rotate: Whether another instance is asked for than the one there is.
        too_old: Whether the instance there is has reached its maximum age.
    """

    uid: str
    managed: bool
    deleting: bool
    skip_cleanup: bool
    finalized: bool
    provider_known: bool
    spec_hash: str
    failure_latched: bool
    paused: bool
    rotate: bool
    too_old: bool


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """What is on record of the instance: in the status, or in the workflow when the object is another one now.

    Attributes:
        uid: The Proxy the instance was made for; "" when there never was one.
        provider_id: "" when no instance is on record.
        spec_hash: What the instance on record was made from, where it carries no mark of its own.
        rotating: Incarnation that a rotation which has begun must still remove; "" when there is none.
    """

    uid: str = ""
    provider_id: str = ""
    spec_hash: str = ""
    rotating: str = ""


@dataclass(frozen=True, kw_only=True)
class Observed:
    """What the provider said last.

    Attributes:
        spec_hash: The instance's own mark; "" where it has none.
        incarnation: Which instance of that name it is.
    """

    presence: Presence = Presence.UNKNOWN
    spec_hash: str = ""
    incarnation: str = ""


class Action(StrEnum):
    """What to do next."""

    END = "End"
    """Nothing is left to look after: tell the broker and end the workflow."""
    REMOVE_FORMER = "RemoveFormer"
    """Remove the instance of an object that is gone or was replaced by another of its name."""
    ADD_FINALIZER = "AddFinalizer"
    LOOK = "Look"
    """Ask the provider what is there."""
    CREATE = "Create"
    AWAIT = "Await"
    """The instance is coming; wait until it runs."""
    WATCH = "Watch"
    """It runs (or is External): probe it and hand it out while it is healthy."""
    REPLACE = "Replace"
    """Stop handing it out, delete it, prove it gone; the next step creates."""
    DELETE = "Delete"
    """The same, for good."""
    RELEASE = "Release"
    """Take our finalizers off the object."""
    HOLD = "Hold"
    """Nothing can be done until something changes."""


@dataclass(frozen=True, kw_only=True)
class Step:
    """One step and, where a condition has to say so, why; ``cause`` goes with a replacement alone."""

    action: Action
    reason: Provisioned | None = None
    cause: Cause | None = None


def decide(desired: Desired | None, recorded: Recorded, observed: Observed) -> Step:
    """Return the next step of a proxy. ``desired`` is None when the object is gone."""
    has_former = bool(recorded.provider_id) and (desired is None or recorded.uid != desired.uid)
    if has_former:
        return Step(action=Action.REMOVE_FORMER)
    if desired is None:
        return Step(action=Action.END)
    if desired.deleting:
        return _decide_deletion(desired, recorded, observed)
    if desired.paused:
        return Step(action=Action.HOLD, reason=Provisioned.PAUSED)
    if not desired.managed:
        return Step(action=Action.WATCH, reason=Provisioned.EXTERNAL)
    if not desired.finalized:
        return Step(action=Action.ADD_FINALIZER)
    return _decide_provisioning(desired, recorded, observed)


def _decide_deletion(desired: Desired, recorded: Recorded, observed: Observed) -> Step:
    if not desired.finalized and not recorded.provider_id:
        return Step(action=Action.END)
    if desired.skip_cleanup or not desired.managed:
        return Step(action=Action.RELEASE)
    if not desired.provider_known:
        if not recorded.provider_id:
            return Step(action=Action.RELEASE)
        return Step(action=Action.HOLD, reason=Provisioned.PROVIDER_NOT_CONFIGURED)
    if observed.presence is Presence.UNKNOWN:
        return Step(action=Action.LOOK)
    if observed.presence is Presence.ABSENT:
        return Step(action=Action.RELEASE)
    return Step(action=Action.DELETE, reason=Provisioned.DELETING)


def _decide_provisioning(desired: Desired, recorded: Recorded, observed: Observed) -> Step:
    if not desired.provider_known:
        return Step(action=Action.HOLD, reason=Provisioned.PROVIDER_NOT_CONFIGURED)
    if desired.failure_latched:
        return Step(action=Action.HOLD, reason=Provisioned.PERMANENT_ERROR)
    if observed.presence is Presence.UNKNOWN:
        return Step(action=Action.LOOK)
    if observed.presence is Presence.ABSENT:
        if not desired.spec_hash:
            return Step(action=Action.HOLD, reason=Provisioned.CLOUD_INIT_ERROR)
        return Step(action=Action.CREATE)
    cause = _cause_to_replace(desired, recorded, observed)
    if cause is not None:
        stopped = cause is Cause.STOPPED
        reason = Provisioned.INSTANCE_STOPPED if stopped else Provisioned.REPLACING
        return Step(action=Action.REPLACE, reason=reason, cause=cause)
    if observed.presence is Presence.COMING:
        return Step(action=Action.AWAIT, reason=Provisioned.PROVISIONING)
    return Step(action=Action.WATCH, reason=Provisioned.RUNNING)


def _cause_to_replace(desired: Desired, recorded: Recorded, observed: Observed) -> Cause | None:
    """Return why the instance there is has to go; a rotation comes first, because no edit takes it back."""
    if recorded.rotating and recorded.rotating == observed.incarnation:
        return Cause.ROTATION
    # What serves, or will, is not given up on purpose while nothing can be made in its place.
    can_be_made = bool(desired.spec_hash)
    if desired.rotate and (can_be_made or observed.presence is Presence.STOPPED):
        return Cause.ROTATION
    if observed.presence is Presence.STOPPED:
        return Cause.STOPPED
    if _made_from_another_spec(desired, recorded, observed):
        return Cause.SPEC
    # One that is only coming serves nobody yet; were it replaced, a low maximum would never let it arrive.
    if desired.too_old and can_be_made and observed.presence is Presence.RUNNING:
        return Cause.AGE
    return None


def _made_from_another_spec(desired: Desired, recorded: Recorded, observed: Observed) -> bool:
    """Whether the instance provably carries another spec; marks of another hash version prove nothing."""
    mark = observed.spec_hash or recorded.spec_hash
    return bool(desired.spec_hash) and spec_hash.is_comparable(mark) and mark != desired.spec_hash
