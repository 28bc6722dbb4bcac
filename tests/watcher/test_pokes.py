"""Pokes on their way: the latest per Proxy, in order, until they are taken."""

import asyncio
import contextlib
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from model.errors import UnavailableError
from model.messages import Poke
from watcher import pokes
from watcher.pokes import PokeQueue

DEADLINE = 20.0


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pokes, "_FIRST_WAIT_SECONDS", 0.01)
    monkeypatch.setattr(pokes, "_LONGEST_WAIT_SECONDS", 0.05)


def poke(name: str, fingerprint: str = "") -> Poke:
    return Poke(namespace="ns", name=name, fingerprint=fingerprint)


@contextlib.asynccontextmanager
async def sending(send: Callable[[Poke], Awaitable[None]]) -> AsyncIterator[PokeQueue]:
    queue = PokeQueue(send)
    running = asyncio.create_task(queue.run())
    try:
        yield queue
        assert not running.done(), "sending has ended"
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        await asyncio.sleep(0.005)


async def test_pokes_arrive_in_their_order() -> None:
    sent: list[str] = []

    async def send(poke: Poke) -> None:
        sent.append(poke.name)

    async with sending(send) as queue:
        wanted = [f"p{number}" for number in range(200)]
        for name in wanted:
            await queue.put(poke(name))
        await until(lambda: len(sent) == 200)
    assert sent == wanted


async def test_the_latest_takes_the_place_of_one_that_waits_and_none_overtakes_another() -> None:
    sent: defaultdict[str, list[str]] = defaultdict(list)
    busy: defaultdict[str, int] = defaultdict(int)
    most = 0
    gate = asyncio.Event()

    async def send(poke: Poke) -> None:
        nonlocal most
        busy[poke.name] += 1
        most = max(most, busy[poke.name])
        await gate.wait()
        await asyncio.sleep(0.001)
        sent[poke.name].append(poke.fingerprint)
        busy[poke.name] -= 1

    async with sending(send) as queue:
        await queue.put(poke("a", "0"))
        await until(lambda: busy["a"] == 1)
        for number in range(1, 50):
            await queue.put(poke("a", str(number)))
            await queue.put(poke("b", str(number)))
            await asyncio.sleep(0)
        gate.set()
        await until(lambda: sent["a"][-1:] == ["49"] and sent["b"][-1:] == ["49"])
    assert sent["a"] == ["0", "49"]
    assert most == 1
    assert sent["b"] == sorted(sent["b"], key=int)


async def test_a_slow_proxy_holds_up_nobody_else() -> None:
    sent: list[str] = []
    gate, begun = asyncio.Event(), asyncio.Event()

    async def send(poke: Poke) -> None:
        if poke.name == "slow":
            begun.set()
            await gate.wait()
        sent.append(poke.name)

    async with sending(send) as queue:
        await queue.put(poke("slow"))
        await begun.wait()
        for name in ("a", "b", "slow", "c"):
            await queue.put(poke(name))
        await until(lambda: sent == ["a", "b", "c"])
        gate.set()
        await until(lambda: sent == ["a", "b", "c", "slow", "slow"])


async def test_a_poke_is_sent_again_until_it_is_taken_and_a_newer_one_replaces_it() -> None:
    taken: list[Poke] = []
    tries: defaultdict[str, int] = defaultdict(int)
    down = True

    async def send(poke: Poke) -> None:
        tries[poke.name] += 1
        if down:
            raise UnavailableError("Temporal is down")
        taken.append(poke)

    names = [f"p{number}" for number in range(30)]
    async with sending(send) as queue:
        for name in names:
            await queue.put(poke(name, "old"))
        await until(lambda: all(tries[name] >= 2 for name in names))
        await queue.put(poke("p0", "new"))
        down = False
        await until(lambda: {told.name for told in taken} == set(names))
        await asyncio.sleep(0.1)
    assert sorted(told.name for told in taken) == sorted(names)
    assert next(told.fingerprint for told in taken if told.name == "p0") == "new"


async def test_a_server_that_is_down_is_not_asked_in_a_hot_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pokes, "_FIRST_WAIT_SECONDS", 0.2)
    monkeypatch.setattr(pokes, "_LONGEST_WAIT_SECONDS", 5.0)
    tries = 0

    async def send(_poke: Poke) -> None:
        nonlocal tries
        tries += 1
        raise UnavailableError("Temporal is down")

    async with sending(send) as queue:
        for number in range(100):
            await queue.put(poke(f"p{number}"))
        await asyncio.sleep(1.0)
    # Eight senders, whose waits are at least 0.1, 0.2, 0.4 and 0.8 seconds.
    assert 8 <= tries <= 8 * 4


async def test_any_other_error_ends_it_loudly() -> None:
    async def send(_poke: Poke) -> None:
        raise ValueError("a defect")

    queue = PokeQueue(send)
    await queue.put(poke("a"))
    async with asyncio.timeout(DEADLINE):
        with pytest.raises(ExceptionGroup) as ended:
            await queue.run()
    assert [str(error) for error in ended.value.exceptions] == ["a defect"]
