"""The servers that tests share must be one of a kind, and must not outlive the session, however it ends."""

import asyncio
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest
from temporalio.client import Client

from tests.support.shared_servers import REPOSITORY, ServerFailedError, Session, SharedServers

SESSION = """
import sys, time
from tests.support.shared_servers import Session, SharedServers
session = Session()
SharedServers(session.directory).facts("temporal")
print(session.directory, flush=True)
if sys.argv[1] == "stay":
    time.sleep(600)
session.close()
"""


def servers_of(directory: str) -> list[psutil.Process]:
    """Return the processes whose command line names the session's folder."""
    found = []
    for process in psutil.process_iter(["cmdline", "status"]):
        words = process.info["cmdline"] or []
        if process.info["status"] != psutil.STATUS_ZOMBIE and any(directory in word for word in words):
            found.append(process)
    return found


def start_session(then: str) -> tuple["subprocess.Popen[str]", str]:
    process = subprocess.Popen([sys.executable, "-c", SESSION, then], cwd=REPOSITORY, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    directory = process.stdout.readline().strip()
    process.stdout.close()
    return process, directory


@pytest.mark.fault
async def test_servers_end_when_the_session_is_killed() -> None:
    process, directory = await asyncio.to_thread(start_session, "stay")
    assert len(servers_of(directory)) >= 2
    process.kill()
    await asyncio.to_thread(process.wait)
    async with asyncio.timeout(30):
        while servers_of(directory):  # noqa: ASYNC110
            await asyncio.sleep(0.1)
    await asyncio.to_thread(shutil.rmtree, directory)


async def test_servers_and_their_files_are_gone_when_the_session_has_closed() -> None:
    process, directory = await asyncio.to_thread(start_session, "close")
    assert await asyncio.to_thread(process.wait, 60) == 0
    assert servers_of(directory) == []
    assert not Path(directory).exists()  # noqa: ASYNC240


async def test_all_who_ask_at_once_get_one_and_the_same_server() -> None:
    session = Session()
    try:
        with ThreadPoolExecutor(4) as threads:
            asked = [threads.submit(SharedServers(session.directory).facts, "temporal") for _ in range(4)]
            addresses = {(await asyncio.wrap_future(one))["address"] for one in asked}
        assert len(addresses) == 1
        await Client.connect(addresses.pop())
    finally:
        await asyncio.to_thread(session.close)


def test_a_server_that_does_not_start_fails_for_everyone_with_the_reason() -> None:
    session = Session()
    try:
        for _ in range(2):
            with pytest.raises(ServerFailedError, match=r"unknown did not start(.|\n)*KeyError"):
                SharedServers(session.directory).facts("unknown")
    finally:
        session.close()
