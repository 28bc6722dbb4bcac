"""Verdicts are cleaned and bounded before they leave the worker that made them."""

import dataclasses
import json

from model.provider_check_messages import CheckOutcome
from model.provider_health import REACHABLE, UNREACHABLE, TargetHealth
from model.provider_health_status import status_of
from model.provider_targets import MOST_TARGETS, answer_of

SECRET = "hunter2hunter2"


def target(name: str, ready: bool = True, **changes: object) -> TargetHealth:
    made = TargetHealth(name=name, ready=ready, reason=REACHABLE if ready else UNREACHABLE)
    return dataclasses.replace(made, **changes)  # type: ignore[arg-type]


def test_what_is_short_and_clean_stays_as_it_is() -> None:
    given = [target("b", False, message="refused"), target("a", address="a:1", latency_millis=3, details={"v": "1"})]
    assert answer_of(given).targets == given


def test_no_secret_is_in_the_answer() -> None:
    loud = target(
        f"https://me:{SECRET}@host",
        ready=False,
        address=f"https://me:{SECRET}@host",
        reason=f"password={SECRET}",
        message=f'HTTP 500 {{"token": "{SECRET}"}}',
        details={"token": SECRET, "url": f"qemu+ssh://me:{SECRET}@host/system", "note": f"password: {SECRET}"},
    )
    assert SECRET not in str(answer_of([loud]))


def test_thousands_of_targets_fit_and_the_failed_ones_are_kept() -> None:
    huge = "x" * 20_000
    details = {str(key) + huge: huge for key in range(50)}
    hosts = [
        target(
            f"host-{number}" + huge,
            number % 100 != 7,
            address=huge,
            message=huge,
            details=details,
        )
        for number in range(300)
    ] + [target(f"plain-{number}", number % 100 != 7) for number in range(5000)]
    answer = answer_of(hosts)
    assert len(answer.targets) == MOST_TARGETS
    assert sum(not each.ready for each in answer.targets) == 53
    status = status_of("kvm", CheckOutcome(provider="kvm", checked_at=0.0, answer=answer), {})
    assert status["targetsReady"] == "5247/5300"
    assert len(json.dumps(dataclasses.asdict(answer))) < 700_000
    assert len(json.dumps(status)) < 900_000


def test_a_target_is_named_once_and_the_worst_verdict_counts() -> None:
    given = [target("a"), target("a", False), target("a"), target(""), target(" ")]
    assert [(each.name, each.ready) for each in answer_of(given).targets] == [("a", False), ("unnamed", True)]
