"""The next step of a proxy: every row of the table, and what must hold for any combination."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.decide import PRESENCE_OF_STATE, Action, Desired, Observed, Presence, Recorded, decide
from model.instance import InstanceState
from model.reasons import Cause, Provisioned

UID = "uid-1"
HASH = "v1-aaaa"
OTHER = "v1-bbbb"
NOTHING = Recorded(uid=UID)
INSTANCE = Recorded(uid=UID, provider_id="box/1")
ROTATING = Recorded(uid=UID, provider_id="box/1", rotating="i1")
PROVIDER_ACTIONS = {Action.LOOK, Action.CREATE, Action.AWAIT, Action.REPLACE, Action.DELETE, Action.REMOVE_FORMER}


def wants(**changes: Any) -> Desired:
    values: dict[str, Any] = {
        "uid": UID,
        "managed": True,
        "deleting": False,
        "skip_cleanup": False,
        "finalized": True,
        "provider_known": True,
        "spec_hash": HASH,
        "failure_latched": False,
        "paused": False,
        "rotate": False,
        "too_old": False,
    }
    return Desired(**(values | changes))


def sees(presence: Presence, mark: str = "") -> Observed:
    return Observed(presence=presence, spec_hash=mark, incarnation="i1")


UNKNOWN, ABSENT = sees(Presence.UNKNOWN), sees(Presence.ABSENT)
COMING, RUNNING, STOPPED = sees(Presence.COMING), sees(Presence.RUNNING), sees(Presence.STOPPED)
EXTERNAL = {"managed": False, "provider_known": False, "finalized": False}

ROWS: dict[str, tuple[Desired | None, Recorded, Observed, Action, Provisioned | None]] = {
    # Provisioning, in the order of a life.
    "finalizer first": (wants(finalized=False), Recorded(), UNKNOWN, Action.ADD_FINALIZER, None),
    "finalizer before everything": (
        wants(finalized=False, provider_known=False, failure_latched=True),
        INSTANCE,
        STOPPED,
        Action.ADD_FINALIZER,
        None,
    ),
    "look": (wants(), NOTHING, UNKNOWN, Action.LOOK, None),
    "create": (wants(), NOTHING, ABSENT, Action.CREATE, None),
    "create again what is gone": (wants(), INSTANCE, ABSENT, Action.CREATE, None),
    "await": (wants(), INSTANCE, sees(Presence.COMING, HASH), Action.AWAIT, Provisioned.PROVISIONING),
    "watch": (wants(), INSTANCE, sees(Presence.RUNNING, HASH), Action.WATCH, Provisioned.RUNNING),
    # Reasons to replace.
    "replace what stopped": (
        wants(),
        INSTANCE,
        sees(Presence.STOPPED, HASH),
        Action.REPLACE,
        Provisioned.INSTANCE_STOPPED,
    ),
    "replace by mark": (wants(), INSTANCE, sees(Presence.RUNNING, OTHER), Action.REPLACE, Provisioned.REPLACING),
    "replace by mark while coming": (
        wants(),
        INSTANCE,
        sees(Presence.COMING, OTHER),
        Action.REPLACE,
        Provisioned.REPLACING,
    ),
    "replace by record": (
        wants(),
        Recorded(uid=UID, provider_id="box/1", spec_hash=OTHER),
        RUNNING,
        Action.REPLACE,
        Provisioned.REPLACING,
    ),
    "the instance's own mark beats the record": (
        wants(),
        Recorded(uid=UID, provider_id="box/1", spec_hash=OTHER),
        sees(Presence.RUNNING, HASH),
        Action.WATCH,
        Provisioned.RUNNING,
    ),
    "rotate": (
        wants(rotate=True),
        INSTANCE,
        sees(Presence.RUNNING, HASH),
        Action.REPLACE,
        Provisioned.REPLACING,
    ),
    "rotate what is coming": (wants(rotate=True), INSTANCE, COMING, Action.REPLACE, Provisioned.REPLACING),
    "rotate what stopped": (wants(rotate=True), INSTANCE, STOPPED, Action.REPLACE, Provisioned.REPLACING),
    "rotate: look first": (wants(rotate=True), INSTANCE, UNKNOWN, Action.LOOK, None),
    "rotate what is gone": (wants(rotate=True), NOTHING, ABSENT, Action.CREATE, None),
    # What serves is not given up while nothing can be made in its place.
    "rotate without readable cloud-init": (
        wants(rotate=True, spec_hash=""),
        INSTANCE,
        RUNNING,
        Action.WATCH,
        Provisioned.RUNNING,
    ),
    "rotate what is coming without readable cloud-init": (
        wants(rotate=True, spec_hash=""),
        INSTANCE,
        COMING,
        Action.AWAIT,
        Provisioned.PROVISIONING,
    ),
    "rotate what stopped without readable cloud-init": (
        wants(rotate=True, spec_hash=""),
        INSTANCE,
        STOPPED,
        Action.REPLACE,
        Provisioned.REPLACING,
    ),
    "too old without readable cloud-init": (
        wants(too_old=True, spec_hash=""),
        INSTANCE,
        RUNNING,
        Action.WATCH,
        Provisioned.RUNNING,
    ),
    "a rotation that has begun goes on without readable cloud-init": (
        wants(spec_hash=""),
        ROTATING,
        RUNNING,
        Action.REPLACE,
        Provisioned.REPLACING,
    ),
    "a rotation that has begun goes on": (wants(), ROTATING, RUNNING, Action.REPLACE, Provisioned.REPLACING),
    "a rotation that is done": (
        wants(),
        Recorded(uid=UID, provider_id="box/1", rotating="i0"),
        RUNNING,
        Action.WATCH,
        Provisioned.RUNNING,
    ),
    "a rotation whose instance is gone": (wants(), ROTATING, ABSENT, Action.CREATE, None),
    "too old": (wants(too_old=True), INSTANCE, RUNNING, Action.REPLACE, Provisioned.REPLACING),
    "too old before it runs": (wants(too_old=True), INSTANCE, COMING, Action.AWAIT, Provisioned.PROVISIONING),
    "too old, nobody asked": (wants(too_old=True), INSTANCE, UNKNOWN, Action.LOOK, None),
    "rotate waits for the provider's config": (
        wants(rotate=True, provider_known=False),
        INSTANCE,
        RUNNING,
        Action.HOLD,
        Provisioned.PROVIDER_NOT_CONFIGURED,
    ),
    "rotate does not lift a latch": (
        wants(rotate=True, failure_latched=True),
        INSTANCE,
        RUNNING,
        Action.HOLD,
        Provisioned.PERMANENT_ERROR,
    ),
    # Paused.
    "paused": (wants(paused=True), INSTANCE, RUNNING, Action.HOLD, Provisioned.PAUSED),
    "paused, nobody asked": (wants(paused=True), INSTANCE, UNKNOWN, Action.HOLD, Provisioned.PAUSED),
    "paused, nothing made": (wants(paused=True), NOTHING, ABSENT, Action.HOLD, Provisioned.PAUSED),
    "paused before it has a finalizer": (
        wants(paused=True, finalized=False),
        Recorded(),
        UNKNOWN,
        Action.HOLD,
        Provisioned.PAUSED,
    ),
    "paused in a rotation": (wants(paused=True, rotate=True), ROTATING, RUNNING, Action.HOLD, Provisioned.PAUSED),
    "paused, stopped": (wants(paused=True), INSTANCE, STOPPED, Action.HOLD, Provisioned.PAUSED),
    "paused and latched": (
        wants(paused=True, failure_latched=True, provider_known=False),
        INSTANCE,
        UNKNOWN,
        Action.HOLD,
        Provisioned.PAUSED,
    ),
    "paused External": (wants(paused=True, **EXTERNAL), NOTHING, UNKNOWN, Action.HOLD, Provisioned.PAUSED),
    "recreated and paused": (wants(uid="uid-2", paused=True), INSTANCE, RUNNING, Action.REMOVE_FORMER, None),
    # Marks that prove nothing: adopt.
    "mark of a newer version": (
        wants(),
        INSTANCE,
        sees(Presence.RUNNING, "v2-cccc"),
        Action.WATCH,
        Provisioned.RUNNING,
    ),
    "mark of the reference": (wants(), INSTANCE, sees(Presence.RUNNING, "cccc"), Action.WATCH, Provisioned.RUNNING),
    "record of the reference": (
        wants(),
        Recorded(uid=UID, provider_id="box/1", spec_hash="cccc"),
        RUNNING,
        Action.WATCH,
        Provisioned.RUNNING,
    ),
    "no mark at all": (wants(), INSTANCE, RUNNING, Action.WATCH, Provisioned.RUNNING),
    "no mark, coming": (wants(), INSTANCE, COMING, Action.AWAIT, Provisioned.PROVISIONING),
    # Cloud-init that cannot be read.
    "unreadable, no instance": (wants(spec_hash=""), NOTHING, ABSENT, Action.HOLD, Provisioned.CLOUD_INIT_ERROR),
    "unreadable, running": (
        wants(spec_hash=""),
        INSTANCE,
        sees(Presence.RUNNING, OTHER),
        Action.WATCH,
        Provisioned.RUNNING,
    ),
    "unreadable, coming": (
        wants(spec_hash=""),
        INSTANCE,
        sees(Presence.COMING, OTHER),
        Action.AWAIT,
        Provisioned.PROVISIONING,
    ),
    "unreadable, nobody asked": (wants(spec_hash=""), NOTHING, UNKNOWN, Action.LOOK, None),
    # Nothing can be done.
    "provider unknown": (
        wants(provider_known=False),
        NOTHING,
        UNKNOWN,
        Action.HOLD,
        Provisioned.PROVIDER_NOT_CONFIGURED,
    ),
    "provider unknown, running": (
        wants(provider_known=False),
        INSTANCE,
        RUNNING,
        Action.HOLD,
        Provisioned.PROVIDER_NOT_CONFIGURED,
    ),
    "latched": (wants(failure_latched=True), NOTHING, UNKNOWN, Action.HOLD, Provisioned.PERMANENT_ERROR),
    "latched, absent": (wants(failure_latched=True), NOTHING, ABSENT, Action.HOLD, Provisioned.PERMANENT_ERROR),
    # Deletion.
    "delete": (wants(deleting=True), INSTANCE, RUNNING, Action.DELETE, Provisioned.DELETING),
    "delete what is coming": (wants(deleting=True), INSTANCE, COMING, Action.DELETE, Provisioned.DELETING),
    "delete what stopped": (wants(deleting=True), INSTANCE, STOPPED, Action.DELETE, Provisioned.DELETING),
    "delete: look first": (wants(deleting=True), INSTANCE, UNKNOWN, Action.LOOK, None),
    "delete: look even without a record": (wants(deleting=True), NOTHING, UNKNOWN, Action.LOOK, None),
    "release": (wants(deleting=True), INSTANCE, ABSENT, Action.RELEASE, None),
    "released": (wants(deleting=True, finalized=False), NOTHING, UNKNOWN, Action.END, None),
    "finalizer stripped by hand, instance left": (
        wants(deleting=True, finalized=False),
        INSTANCE,
        RUNNING,
        Action.DELETE,
        Provisioned.DELETING,
    ),
    "deletion never latches": (
        wants(deleting=True, failure_latched=True),
        INSTANCE,
        RUNNING,
        Action.DELETE,
        Provisioned.DELETING,
    ),
    "deletion needs no cloud-init": (
        wants(deleting=True, spec_hash=""),
        INSTANCE,
        RUNNING,
        Action.DELETE,
        Provisioned.DELETING,
    ),
    "skip-cleanup": (wants(deleting=True, skip_cleanup=True), INSTANCE, RUNNING, Action.RELEASE, None),
    "skip-cleanup before any look": (
        wants(deleting=True, skip_cleanup=True, provider_known=False),
        INSTANCE,
        UNKNOWN,
        Action.RELEASE,
        None,
    ),
    "skip-cleanup of the living changes nothing": (wants(skip_cleanup=True), NOTHING, ABSENT, Action.CREATE, None),
    "delete, provider unknown, no instance": (
        wants(deleting=True, provider_known=False),
        NOTHING,
        UNKNOWN,
        Action.RELEASE,
        None,
    ),
    "delete, provider unknown, instance": (
        wants(deleting=True, provider_known=False),
        INSTANCE,
        UNKNOWN,
        Action.HOLD,
        Provisioned.PROVIDER_NOT_CONFIGURED,
    ),
    "deletion makes no rotation": (
        wants(deleting=True, rotate=True, too_old=True),
        ROTATING,
        RUNNING,
        Action.DELETE,
        Provisioned.DELETING,
    ),
    "nothing of ours carries the name": (wants(deleting=True), NOTHING, ABSENT, Action.RELEASE, None),
    # Objects that are gone or another one.
    "recreated": (wants(uid="uid-2"), INSTANCE, RUNNING, Action.REMOVE_FORMER, None),
    "recreated and deleting": (wants(uid="uid-2", deleting=True), INSTANCE, RUNNING, Action.REMOVE_FORMER, None),
    "recreated as External": (wants(uid="uid-2", **EXTERNAL), INSTANCE, RUNNING, Action.REMOVE_FORMER, None),
    "recreated, the former had nothing": (wants(uid="uid-2"), NOTHING, UNKNOWN, Action.LOOK, None),
    "gone": (None, NOTHING, UNKNOWN, Action.END, None),
    "gone, never seen": (None, Recorded(), UNKNOWN, Action.END, None),
    "gone, instance left": (None, INSTANCE, RUNNING, Action.REMOVE_FORMER, None),
    # External.
    "external": (wants(**EXTERNAL), NOTHING, UNKNOWN, Action.WATCH, Provisioned.EXTERNAL),
    "external, deleted": (wants(deleting=True, **EXTERNAL), NOTHING, UNKNOWN, Action.END, None),
    "external with a finalizer of the reference": (
        wants(deleting=True, **(EXTERNAL | {"finalized": True})),
        NOTHING,
        UNKNOWN,
        Action.RELEASE,
        None,
    ),
    "external never latches": (
        wants(failure_latched=True, **EXTERNAL),
        NOTHING,
        UNKNOWN,
        Action.WATCH,
        Provisioned.EXTERNAL,
    ),
}


@pytest.mark.parametrize("row", ROWS)
def test_table(row: str) -> None:
    desired, recorded, observed, action, reason = ROWS[row]
    step = decide(desired, recorded, observed)
    assert (step.action, step.reason) == (action, reason)
    assert (step.cause is not None) is (action is Action.REPLACE)


@pytest.mark.parametrize(
    ("desired", "recorded", "observed", "cause"),
    [
        (wants(), INSTANCE, sees(Presence.STOPPED, HASH), Cause.STOPPED),
        (wants(), INSTANCE, sees(Presence.RUNNING, OTHER), Cause.SPEC),
        (wants(too_old=True), INSTANCE, sees(Presence.RUNNING, HASH), Cause.AGE),
        (wants(rotate=True), INSTANCE, sees(Presence.RUNNING, HASH), Cause.ROTATION),
        (wants(too_old=True), INSTANCE, sees(Presence.RUNNING, OTHER), Cause.SPEC),
        (wants(too_old=True), INSTANCE, sees(Presence.STOPPED, OTHER), Cause.STOPPED),
        # No edit takes a rotation back, so it must not hide behind what an edit does.
        (wants(rotate=True, too_old=True), INSTANCE, sees(Presence.STOPPED, OTHER), Cause.ROTATION),
        (wants(too_old=True), ROTATING, sees(Presence.RUNNING, OTHER), Cause.ROTATION),
    ],
)
def test_the_cause_of_a_replacement(desired: Desired, recorded: Recorded, observed: Observed, cause: Cause) -> None:
    assert decide(desired, recorded, observed).cause is cause


def test_the_table_has_every_action_and_every_presence() -> None:
    assert {row[3] for row in ROWS.values()} == set(Action)
    assert {row[2].presence for row in ROWS.values()} == set(Presence)
    assert set(PRESENCE_OF_STATE) == set(InstanceState)


HASHES = st.sampled_from(["", HASH, OTHER, "v2-aaaa", "aaaa"])
UIDS = st.sampled_from([UID, "uid-2"])
DESIRED = st.builds(
    Desired,
    uid=UIDS,
    managed=st.booleans(),
    deleting=st.booleans(),
    skip_cleanup=st.booleans(),
    finalized=st.booleans(),
    provider_known=st.booleans(),
    spec_hash=st.sampled_from(["", HASH]),
    failure_latched=st.booleans(),
    paused=st.booleans(),
    rotate=st.booleans(),
    too_old=st.booleans(),
)
RECORDED = st.builds(
    Recorded,
    uid=st.sampled_from(["", UID, "uid-2"]),
    provider_id=st.sampled_from(["", "box/1"]),
    spec_hash=HASHES,
    rotating=st.sampled_from(["", "i1", "i2"]),
)
OBSERVED = st.builds(
    Observed, presence=st.sampled_from(list(Presence)), spec_hash=HASHES, incarnation=st.sampled_from(["", "i1"])
)


@given(st.one_of(st.none(), DESIRED), RECORDED, OBSERVED)
def test_whatever_the_combination(desired: Desired | None, recorded: Recorded, observed: Observed) -> None:
    step = decide(desired, recorded, observed)
    action = step.action
    of_another = bool(recorded.provider_id) and (desired is None or recorded.uid != desired.uid)
    assert (action is Action.REMOVE_FORMER) is of_another
    if desired is None or of_another:
        assert action in (Action.END, Action.REMOVE_FORMER)
        return
    if action is Action.CREATE:
        assert observed.presence is Presence.ABSENT
        assert desired.managed
        assert desired.finalized
        assert desired.spec_hash
        assert not desired.deleting
    if action in PROVIDER_ACTIONS:
        assert desired.managed
        assert desired.provider_known
        assert desired.deleting or desired.finalized
        assert desired.deleting or not desired.failure_latched
        assert not (desired.deleting and desired.skip_cleanup)
    if action is Action.RELEASE:
        assert desired.deleting
        assert (
            observed.presence is Presence.ABSENT
            or desired.skip_cleanup
            or not desired.managed
            or (not desired.provider_known and not recorded.provider_id)
        )
    if action is Action.END:
        assert desired.deleting
        assert not desired.finalized
        assert not recorded.provider_id
    if desired.deleting:
        assert action in (Action.END, Action.RELEASE, Action.HOLD, Action.LOOK, Action.DELETE)
    else:
        assert action not in (Action.END, Action.RELEASE, Action.DELETE)
    if action is Action.REPLACE:
        assert observed.presence not in (Presence.UNKNOWN, Presence.ABSENT)
        has_begun = bool(recorded.rotating) and recorded.rotating == observed.incarnation
        assert desired.spec_hash or has_begun or observed.presence is Presence.STOPPED
    if desired.paused and not desired.deleting:
        assert (action, step.reason) == (Action.HOLD, Provisioned.PAUSED)
    if step.cause is Cause.SPEC:
        mark = observed.spec_hash or recorded.spec_hash
        assert mark.startswith("v1-")
        assert mark != desired.spec_hash
    if action in (Action.HOLD, Action.WATCH, Action.AWAIT, Action.REPLACE, Action.DELETE):
        assert step.reason is not None


@given(DESIRED, RECORDED, OBSERVED)
def test_an_external_proxy_meets_no_provider(desired: Desired, recorded: Recorded, observed: Observed) -> None:
    if desired.managed or recorded.provider_id:
        return
    step = decide(desired, recorded, observed)
    paused = (step.action, step.reason) == (Action.HOLD, Provisioned.PAUSED)
    assert paused or step.action in (Action.WATCH, Action.END, Action.RELEASE)
