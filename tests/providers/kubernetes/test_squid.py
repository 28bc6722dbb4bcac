"""The script that starts squid in a Pod, run on this machine."""

import asyncio
import contextlib
import os
import re
import resource
import socket
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from providers.kubernetes import squid
from tests.providers.local.conftest import need_squid
from tests.support.listening import listen


@contextlib.asynccontextmanager
async def running(folder: Path, port: int, hard_limit: int) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run the script, from when squid accepts connections to the end of the block."""
    await asyncio.to_thread(folder.chmod, 0o777)
    process = await asyncio.create_subprocess_exec(
        "/bin/sh",
        "-c",
        squid.START_SCRIPT.replace(squid.FOLDER, str(folder)),
        env={
            "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "MAX_FILEDESCRIPTORS": str(squid.MAX_FILE_DESCRIPTORS),
            "SQUID_CONFIG": squid.squid_config("proxy-test", port),
        },
        preexec_fn=limiting(hard_limit),
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(30):
            while not accepts(port):
                assert process.returncode is None, "squid has ended"
                await asyncio.sleep(0.05)
        yield process
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


async def started(folder: Path, port: int, hard_limit: int) -> str:
    """Run the script until squid accepts connections, end it, and return what it said."""
    async with running(folder, port, hard_limit) as process:
        process.terminate()
        _, said = await process.communicate()
    return said.decode()


def free_port() -> int:
    with listen("127.0.0.1") as free:
        port: int = free.getsockname()[1]
    return port


@pytest.fixture
async def squid_port(tmp_path: Path) -> AsyncIterator[int]:
    """The port of a squid of a Pod, on this machine."""
    need_squid()
    port = free_port()
    async with running(tmp_path, port, 4096):
        yield port


def limiting(hard_limit: int) -> Callable[[], None]:
    return lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (hard_limit, hard_limit))


def accepts(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True


@pytest.mark.parametrize(("hard_limit", "descriptors"), [(8192, 4096), (512, 512)])
async def test_the_descriptors_never_exceed_the_hard_limit(tmp_path: Path, hard_limit: int, descriptors: int) -> None:
    need_squid()
    port = free_port()
    said = await started(tmp_path, port, hard_limit)
    config = (tmp_path / "squid.conf").read_text()
    assert config.startswith(f"http_port {port}\n")
    assert config.endswith(f"\nmax_filedescriptors {descriptors}\n")
    lowered = re.search(r"lowered from (\d+) to (\d+)", said)
    assert bool(lowered) is (descriptors < squid.MAX_FILE_DESCRIPTORS)
    assert await asyncio.to_thread(os.listdir, tmp_path) == ["squid.conf"]


def test_the_configuration_is_that_of_the_projects_own_image() -> None:
    """Which of the two starts squid makes no difference to a crawler."""
    image = Path(__file__).parents[3] / "deploy" / "images" / "squid" / "squid.conf"
    theirs = {line for line in image.read_text().splitlines() if line and not line.startswith("#")}
    ours = set(squid.squid_config("x", 1).splitlines()) - {"http_port 1", "visible_hostname x"}
    assert ours == theirs


@pytest.mark.parametrize(
    "target",
    [
        "127.0.0.1",
        "127.1",
        "2130706433",
        "0x7f000001",
        "localhost",
        "0.0.0.0",
        "[::1]",
        "[::]",
        "[::ffff:127.0.0.1]",
        "[::ffff:169.254.169.254]",
        "169.254.169.254",
        "[fd00:ec2::254]",
        "[fd20:ce::254]",
        "100.100.100.200",
        "168.63.129.16",
        "192.0.0.192",
    ],
)
async def test_no_spelling_reaches_the_machine_itself_or_a_metadata_server(squid_port: int, target: str) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", squid_port)
    async with asyncio.timeout(20):
        writer.write(f"CONNECT {target}:{squid_port} HTTP/1.1\r\nHost: {target}\r\n\r\n".encode())
        answer = await reader.readline()
        writer.close()
        await writer.wait_closed()
    assert b" 403 " in answer


def test_kubernetes_reads_no_variable_of_its_own_in_the_script() -> None:
    assert "$(" not in squid.START_SCRIPT + squid.squid_config("x", 1)
