"""Group commit over a server that answers as the test says."""

import asyncio
import functools
from collections.abc import Awaitable, Callable

import pytest

from leasing.group_commit import FIRST_ATTEMPT, SHORTEST_ATTEMPT, GroupCommit
from model.errors import UnavailableError
from model.lease_answers import Answer
from model.lease_operations import Release
from tests.leasing.polling import wait_until

ONE_ANSWER = '{"views":[],"answers":[["d"]]}'
Send = Callable[[str, str], Awaitable[str]]


def answering(attempts: list[tuple[str, float]], unanswered: int) -> Send:
    """Answer each batch at once but for so many attempts of the last one."""
    left = unanswered

    async def send(_: str, update_id: str) -> str:
        nonlocal left
        attempts.append((update_id, asyncio.get_running_loop().time()))
        if len({one for one, _ in attempts}) > 20 and left:
            left -= 1
            await asyncio.Event().wait()
        return ONE_ANSWER

    return send


async def watches_nothing(commit: GroupCommit) -> bool:
    return commit._watch is None


async def test_where_answers_come_quickly_a_late_one_is_asked_for_sooner_under_the_same_id() -> None:
    loop = asyncio.get_running_loop()
    attempts: list[tuple[str, float]] = []
    commit = GroupCommit(answering(attempts, unanswered=1))
    for _ in range(21):
        await commit.submit(Release("id"), loop.time() + 20).answer
    (first, second) = attempts[-2:]
    assert first[0] == second[0]
    assert second[1] - first[1] >= SHORTEST_ATTEMPT - 0.01
    assert commit._patience() < FIRST_ATTEMPT


async def test_a_new_client_is_as_patient_as_it_gets() -> None:
    async def send(_: str, __: str) -> str:
        return ONE_ANSWER

    assert GroupCommit(send)._patience() == FIRST_ATTEMPT


async def test_each_is_answered_at_its_own_deadline_in_flight_or_waiting() -> None:
    loop = asyncio.get_running_loop()

    async def send(_: str, __: str) -> str:
        await asyncio.Event().wait()
        raise AssertionError

    commit = GroupCommit(send)
    begun = loop.time()
    waits = (0.3, 0.6, 1.2)
    in_flight = [commit.submit(Release("id"), begun + wait) for wait in waits]
    await asyncio.sleep(0.05)
    waiting = [commit.submit(Release("id"), begun + wait) for wait in waits]

    async def ended(answer: "asyncio.Future[Answer]") -> float:
        with pytest.raises(UnavailableError):
            await answer
        return loop.time() - begun

    times = await asyncio.gather(*(ended(pending.answer) for pending in (*in_flight, *waiting)))
    for wait, time in zip(waits * 2, times, strict=True):
        assert wait <= time < wait + 2
    assert times[0] < times[1] < times[2]
    await commit.drain(0.1)


async def test_nothing_keeps_running_once_everything_is_answered() -> None:
    async def send(_: str, __: str) -> str:
        return ONE_ANSWER

    before = asyncio.all_tasks()
    commit = GroupCommit(send)
    await commit.submit(Release("id"), asyncio.get_running_loop().time() + 20).answer
    await commit.drain(1)
    await wait_until(functools.partial(watches_nothing, commit))
    assert asyncio.all_tasks() == before


async def test_stopping_answers_everyone() -> None:
    async def send(_: str, __: str) -> str:
        await asyncio.Event().wait()
        raise AssertionError

    commit = GroupCommit(send)
    deadline = asyncio.get_running_loop().time() + 20
    pending = [commit.submit(Release("id"), deadline)]
    await asyncio.sleep(0.05)
    pending.append(commit.submit(Release("id"), deadline))
    await commit.drain(0.05)
    for one in pending:
        with pytest.raises(UnavailableError, match="stopping"):
            await one.answer
    await wait_until(functools.partial(watches_nothing, commit))
