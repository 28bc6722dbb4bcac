"""Heartbeats beat while the body lets the loop run, and only then."""

import asyncio
import dataclasses
import time
from collections.abc import Awaitable, Callable
from datetime import timedelta

import pytest
from temporalio.testing import ActivityEnvironment

from activities.heartbeats import heartbeating


async def beats_during(body: Callable[[], Awaitable[None]], timeout: timedelta | None) -> list[float]:
    environment = ActivityEnvironment()
    environment.info = dataclasses.replace(environment.info, heartbeat_timeout=timeout)
    beats: list[float] = []
    environment.on_heartbeat = lambda *_details: beats.append(time.monotonic())

    async def run() -> None:
        async with heartbeating():
            await body()

    await environment.run(run)
    count = len(beats)
    await asyncio.sleep(0.15)
    assert len(beats) == count, "it beats on after the body"
    return beats


async def test_it_beats_three_times_per_timeout() -> None:
    beats = await beats_during(lambda: asyncio.sleep(0.5), timedelta(seconds=0.3))
    assert 3 <= len(beats) <= 6


async def test_a_body_that_blocks_the_loop_is_found_out() -> None:
    async def block() -> None:
        await asyncio.sleep(0)
        time.sleep(0.5)  # noqa: ASYNC251 - the fault itself

    beats = await beats_during(block, timedelta(seconds=0.15))
    assert len(beats) <= 2


async def test_without_a_timeout_nothing_beats() -> None:
    assert await beats_during(lambda: asyncio.sleep(0.1), None) == []


async def test_an_error_ends_the_beats_and_passes() -> None:
    async def fail() -> None:
        raise ValueError("a defect")

    with pytest.raises(ValueError, match="a defect"):
        await beats_during(fail, timedelta(seconds=0.1))
