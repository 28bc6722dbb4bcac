"""The load clients against the in-memory reference: both in processes of their own, as in a run."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from app.dev.ports import PortBook
from bench.load import LoadPlan, take_answer
from bench.load_scripts import FLOOD, LIST, REFUSALS
from bench.local_commit import encode_proxies
from bench.results import BenchError
from bench.running_load import run_load, start_broker
from model.lease_list import ListedProxy
from model.lease_operations import ProxyView

CLIENTS = 4


def proxies(max_leases: int) -> str:
    attributes = {"geo": "de", FLOOD: "no"}
    view = ProxyView("192.0.2.1", 3128, attributes, "Ready", True, 12, max_leases, True, "one")
    return encode_proxies([ListedProxy("default/one", view, 0)])


def plan(port: int, script: str = "leases", seconds: float = 0.5) -> LoadPlan:
    return LoadPlan(port=port, clients=CLIENTS, warm_up=0.1, seconds=seconds, script=script)


@asynccontextmanager
async def memory_broker(directory: Path, max_leases: int) -> AsyncIterator[int]:
    path = directory / "proxies.json"
    path.write_text(proxies(max_leases))
    port = PortBook(directory / "ports.json").choose("memory")["memory"]
    server = await start_broker("memory", path, port, directory / "memory.log")
    try:
        yield port
    finally:
        await server.stop()


async def test_clients_acquire_and_release_all_the_time_and_leave_no_lease_behind(tmp_path: Path) -> None:
    async with memory_broker(tmp_path, CLIENTS) as port:
        load = await run_load(plan(port))
        async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{port}/v1/proxies") as response:
            [proxy] = json.loads(await response.text())["proxies"]
    assert len(load.millis) > CLIENTS
    assert all(0 < millis < 10_000 for millis in load.millis)
    assert 0 < load.longest_gap < 0.5
    assert load.cpu_seconds > 0
    assert proxy["activeLeases"] == 0
    assert proxy["maxLeases"] == CLIENTS


async def test_a_refused_lease_fails_the_run_and_says_why(tmp_path: Path) -> None:
    async with memory_broker(tmp_path, 1) as port:
        with pytest.raises(BenchError, match=r"409.*no_match"):
            await run_load(plan(port, seconds=5.0))


async def test_a_load_of_refusals_wants_to_be_refused(tmp_path: Path) -> None:
    async with memory_broker(tmp_path, CLIENTS) as port:
        load = await run_load(plan(port, REFUSALS))
    assert len(load.millis) > CLIENTS


async def test_lists_are_measured_too(tmp_path: Path) -> None:
    async with memory_broker(tmp_path, CLIENTS) as port:
        load = await run_load(plan(port, LIST))
    assert len(load.millis) > CLIENTS


@pytest.mark.parametrize(
    ("received", "answer"),
    [
        (b"HTTP/1.1 204 No Content\r\nServer: x\r\n\r\n", (b"204", b"")),
        (b"HTTP/1.1 201 Created\r\ncontent-length: 2\r\n\r\n{}", (b"201", b"{}")),
        (b"HTTP/1.1 201 Created\r\nContent-Length: 3\r\n\r\n{}", None),
        (b"HTTP/1.1 201 Created\r\nContent-Length: 2\r\n", None),
    ],
)
def test_an_answer_counts_once_it_is_complete(received: bytes, answer: tuple[bytes, bytes] | None) -> None:
    assert take_answer(received) == answer
