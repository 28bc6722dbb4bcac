"""Targets are asked directly once for all who want to know."""

import asyncio
from collections.abc import Iterator

import pytest

from probing import target_check
from probing.resolver import Resolver
from probing.target import parse_target
from probing.target_check import TargetCheck
from tests.probing import servers
from tests.probing.certificates import Authority
from tests.probing.requests import eventually
from tests.probing.servers import Origin, ScriptedServer, response


@pytest.fixture
def check(authority: Authority) -> TargetCheck:
    return TargetCheck(resolver=Resolver(), ssl_context=authority.trust())


@pytest.fixture
def silent() -> Iterator[ScriptedServer]:
    server = ScriptedServer(servers.silent)
    yield server
    server.close()


async def test_many_askers_share_one_question(check: TargetCheck, origin: Origin) -> None:
    target = parse_target(origin.url)
    answers = await asyncio.gather(*(check.ask(target, 5.0) for _ in range(100)))
    assert {answer.status for answer in answers} == {204}
    assert origin.connections == 1
    assert origin.requests[0].startswith("GET /generate_204 HTTP/1.1\r\n")


async def test_a_good_answer_counts_for_a_short_time(
    check: TargetCheck, origin: Origin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(target_check, "UP_LIFETIME_SECONDS", 0.2)
    target = parse_target(origin.url)
    await check.ask(target, 5.0)
    await check.ask(target, 5.0)
    assert origin.connections == 1
    await asyncio.sleep(0.25)
    await check.ask(target, 5.0)
    assert origin.connections == 2


@pytest.mark.parametrize("status", ["429 Too Many Requests", "503 Service Unavailable"])
async def test_a_target_in_trouble_is_left_alone_for_longer(
    check: TargetCheck, origin: Origin, monkeypatch: pytest.MonkeyPatch, status: str
) -> None:
    monkeypatch.setattr(target_check, "UP_LIFETIME_SECONDS", 0.0)
    origin.answer = response(status)
    target = parse_target(origin.url)
    first = await check.ask(target, 5.0)
    assert (await check.ask(target, 5.0)) == first
    assert origin.connections == 1


async def test_a_missing_answer_is_shared_too(check: TargetCheck, silent: ScriptedServer) -> None:
    target = parse_target(f"http://127.0.0.1:{silent.port}/")
    answers = await asyncio.gather(*(check.ask(target, 0.3) for _ in range(10)))
    assert {answer.status for answer in answers} == {None}
    assert answers[0].text == f"target 127.0.0.1:{silent.port}: connected, but no complete response within 0.3 s"
    assert await check.ask(target, 0.3) == answers[0]
    assert silent.connections == 1


async def test_who_gives_up_does_not_take_the_answer_from_others(check: TargetCheck, silent: ScriptedServer) -> None:
    target = parse_target(f"http://127.0.0.1:{silent.port}/")
    leaving = asyncio.create_task(check.ask(target, 0.5))
    staying = asyncio.create_task(check.ask(target, 0.5))
    await eventually(lambda: silent.connections == 1)
    leaving.cancel()
    assert (await staying).status is None
    assert leaving.cancelled()
    assert silent.connections == 1


async def test_a_question_ends_with_the_last_who_asks_and_is_asked_anew(
    check: TargetCheck, silent: ScriptedServer
) -> None:
    target = parse_target(f"http://127.0.0.1:{silent.port}/")
    alone = asyncio.create_task(check.ask(target, 20.0))
    await eventually(lambda: silent.connections == 1)
    alone.cancel()
    again = asyncio.create_task(check.ask(target, 20.0))
    await eventually(lambda: silent.connections == 2)
    assert not again.done()
    again.cancel()
    await asyncio.wait({again, alone})
    await eventually(lambda: len(asyncio.all_tasks()) == 1)
