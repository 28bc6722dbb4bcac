"""The conformance suite itself: a sound provider passes, and each broken rule is found by the test that is for it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from providers.conformance import Fault, FaultPoint, FaultWay, Operation, ProviderConformance
from providers.conformance_harness import Stranger
from providers.conformance_report import Row, matrix
from tests.providers.memory_backend import FAULTS, MemoryHarness


class TestSuite(ProviderConformance):
    """A provider in memory passes it whole."""

    fault_points = FAULTS

    @pytest.fixture
    def harness(self) -> MemoryHarness:
        return MemoryHarness()


RULES = TestSuite()
STRANGER = {"stranger": Stranger.OTHER_UID}


@pytest.mark.parametrize(
    ("defect", "test", "arguments"),
    [
        ("not idempotent", "test_create_is_idempotent_by_name", {}),
        ("not idempotent", "test_creates_of_one_name_at_the_same_time_make_one_instance", {}),
        ("own hash forgotten", "test_an_adopted_instance_returns_its_own_marks", {}),
        ("adopts strangers", "test_a_strangers_instance_is_neither_adopted_nor_touched", STRANGER),
        ("installation unmarked", "test_a_created_instance_carries_all_marks_and_gets_to_run", {}),
        ("no zone", "test_a_created_instance_carries_all_marks_and_gets_to_run", {}),
        ("no address", "test_a_created_instance_carries_all_marks_and_gets_to_run", {}),
        ("silent refusal", "test_a_request_that_can_never_be_met_names_the_field_and_makes_nothing", {}),
        ("guesses", "test_a_backend_out_of_reach_is_not_an_answer", {}),
        ("delete not idempotent", "test_delete_removes_everything_and_may_be_repeated", {}),
        ("leaves disks", "test_delete_removes_everything_and_may_be_repeated", {}),
        ("spares nothing", "test_delete_spares_another_incarnation", {}),
        ("lists everything", "test_the_list_holds_the_managed_of_every_installation", {}),
        ("check fails", "test_the_check_tells_about_every_target_and_never_fails", {}),
        ("check is always good", "test_the_check_tells_about_every_target_and_never_fails", {}),
        ("marks any incarnation", "test_marks_are_written_to_the_incarnation_that_is_meant", {}),
        ("unmarks any incarnation", "test_an_instance_whose_marks_were_removed_is_nobodys", {}),
        ("patient with nonsense", "test_an_id_that_was_never_given_out_is_permanent", {}),
    ],
)
async def test_a_broken_rule_is_found(defect: str, test: str, arguments: dict[str, object]) -> None:
    await getattr(RULES, test)(MemoryHarness(), **arguments)
    with pytest.raises((Exception, pytest.fail.Exception)):
        await getattr(RULES, test)(MemoryHarness(defect), **arguments)


async def test_cloud_init_in_a_log_is_found(caplog: pytest.LogCaptureFixture) -> None:
    await RULES.test_no_secret_is_in_any_text(MemoryHarness(), caplog)
    with pytest.raises(AssertionError):
        await RULES.test_no_secret_is_in_any_text(MemoryHarness("logs cloud-init"), caplog)


@pytest.mark.parametrize("operation", [Operation.GET, Operation.FIND])
async def test_a_guess_after_a_fault_is_found(operation: Operation) -> None:
    fault = FaultPoint(operation, "call", FaultWay.REFUSED)
    with pytest.raises(AssertionError):
        await RULES.test_a_look_that_broke_never_says_that_nothing_is_there(
            MemoryHarness("guesses"), fault, lambda *_: None
        )


async def test_a_second_instance_after_a_fault_is_found() -> None:
    fault = FaultPoint(Operation.CREATE, "call", FaultWay.ANSWER_LOST)
    with pytest.raises(AssertionError):
        await RULES.test_a_create_that_broke_is_completed_by_the_next(
            MemoryHarness("not idempotent"), fault, lambda *_: None
        )


async def test_a_fault_that_is_never_reached_is_found() -> None:
    class Deaf(MemoryHarness):
        @asynccontextmanager
        async def broken(self, point: FaultPoint) -> AsyncIterator[Fault]:
            async with super().broken(FaultPoint(Operation.LIST, point.step, point.way)) as fault:
                yield fault

    fault = FaultPoint(Operation.DELETE, "call", FaultWay.REFUSED)
    with pytest.raises(AssertionError, match="was never reached"):
        await RULES.test_a_delete_that_broke_is_completed_by_the_next(Deaf(), fault, lambda *_: None)


def test_the_matrix_shows_every_step_and_way() -> None:
    rows = {
        ("create", "insert"): Row(1, {"refused": "TransientError", "hangs": "no answer"}),
        ("create", "find"): Row(0, {"refused": "FAILED"}),
    }
    assert matrix(rows) == [
        "operation  step    hangs      refused",
        "create     find    -          FAILED",
        "create     insert  no answer  Transient",
    ]
