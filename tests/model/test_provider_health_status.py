"""From the outcome of a check to the status of a ProviderHealth object."""

from typing import Any

from model.errors import MESSAGE_LIMIT
from model.provider_check_messages import CheckAnswer, CheckOutcome
from model.provider_health import REACHABLE, TIMEOUT, UNREACHABLE, TargetHealth
from model.provider_health_status import is_ready, ready_status, status_of

FIRST, LATER = 1_780_000_000.0, 1_780_000_060.0
FIRST_TEXT, LATER_TEXT = "2026-05-28T20:26:40Z", "2026-05-28T20:27:40Z"
GOOD = TargetHealth(
    name="kvm1", address="kvm1:22", ready=True, reason=REACHABLE, latency_millis=12, details={"pool": "a"}
)
BAD = TargetHealth(name="kvm2", ready=False, reason=UNREACHABLE, message="connection refused")


def outcome(*targets: TargetHealth, at: float = FIRST, implemented: bool = True) -> CheckOutcome:
    return CheckOutcome(
        provider="kvm", checked_at=at, answer=CheckAnswer(implemented=implemented, targets=list(targets))
    )


def condition(status: dict[str, Any]) -> dict[str, Any]:
    [found] = status["conditions"]
    return dict(found)


def test_all_targets_ready() -> None:
    status = status_of("kvm", outcome(GOOD), {})
    assert status["targets"] == [
        {
            "name": "kvm1",
            "address": "kvm1:22",
            "ready": True,
            "reason": "Reachable",
            "latencyMillis": 12,
            "details": {"pool": "a"},
            "lastTransitionTime": FIRST_TEXT,
        }
    ]
    assert (status["type"], status["targetsReady"], status["lastCheckTime"]) == ("kvm", "1/1", FIRST_TEXT)
    assert (condition(status)["status"], condition(status)["reason"]) == ("True", "AllTargetsReady")
    assert is_ready(status)


def test_a_failing_target_is_named_in_the_condition() -> None:
    status = status_of("kvm", outcome(GOOD, BAD), {})
    assert status["targetsReady"] == "1/2"
    assert (condition(status)["status"], condition(status)["reason"]) == ("False", "TargetsNotReady")
    assert condition(status)["message"] == "kvm2: Unreachable: connection refused"
    assert not is_ready(status)


def test_a_provider_without_a_check_or_without_targets_is_not_bad() -> None:
    for answer, reason in ((outcome(implemented=False), "ChecksNotImplemented"), (outcome(), "NoTargets")):
        status = status_of("local", answer, {})
        assert (ready_status(status), condition(status)["reason"]) == ("Unknown", reason)
        assert (status["targets"], status["targetsReady"]) == ([], "0/0")


def test_times_of_transition_move_only_with_the_verdict() -> None:
    before = status_of("kvm", outcome(GOOD, BAD), {})
    same = status_of("kvm", outcome(GOOD, BAD, at=LATER), before)
    assert [target["lastTransitionTime"] for target in same["targets"]] == [FIRST_TEXT, FIRST_TEXT]
    assert (condition(same)["lastTransitionTime"], same["lastCheckTime"]) == (FIRST_TEXT, LATER_TEXT)
    mended = status_of("kvm", outcome(GOOD, TargetHealth(name="kvm2", ready=True, reason=REACHABLE), at=LATER), before)
    assert [target["lastTransitionTime"] for target in mended["targets"]] == [FIRST_TEXT, LATER_TEXT]
    assert condition(mended)["lastTransitionTime"] == LATER_TEXT


def test_a_check_without_an_answer_speaks_of_the_known_targets() -> None:
    hung = CheckOutcome(provider="kvm", checked_at=LATER, reason=TIMEOUT, message="no verdict within 15s")
    status = status_of("kvm", hung, status_of("kvm", outcome(GOOD, BAD), {}))
    assert [(target["name"], target["ready"], target["reason"]) for target in status["targets"]] == [
        ("kvm1", False, "Timeout"),
        ("kvm2", False, "Timeout"),
    ]
    assert status["targets"][0]["address"] == "kvm1:22"
    first = status_of("kvm", hung, {})
    assert [target["name"] for target in first["targets"]] == ["kvm"]
    assert first["targetsReady"] == "0/1"


def test_no_secret_and_no_long_text_reaches_the_object() -> None:
    loud = TargetHealth(
        name="x",
        address="https://me:hunter2hunter2@host",
        ready=False,
        reason="APIError",
        message="password=hunter2hunter2 " + "x " * 5000,
        details={"url": "https://me:hunter2hunter2@host"},
    )
    status = status_of("gcp", outcome(loud), {})
    assert "hunter2" not in str(status)
    assert len(status["targets"][0]["message"]) <= MESSAGE_LIMIT
    assert len(condition(status)["message"]) <= MESSAGE_LIMIT
