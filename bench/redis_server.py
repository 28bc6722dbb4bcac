"""A Redis server of the bench's own: every write synced to disk before it is answered."""

import asyncio
import shutil
from pathlib import Path

from app.dev.debian import Report, install_command, install_package, may_install
from app.dev.ports import LOOPBACK, PortBook
from app.dev.processes import ChildProcess

PROGRAM = "redis-server"


async def ensure_redis(report: Report) -> bool:
    """Install Debian's package, without its service, where it is missing and we are root; True when it is there.

    Elsewhere the command is named, and the comparison is left out.
    """
    if shutil.which(PROGRAM) is not None:
        return True
    if not may_install():
        command = install_command(PROGRAM)
        report(f"redis-server is not installed; the rows that need it are left out. On Debian, as root: {command}")
        return False
    return await install_package(PROGRAM, report) and shutil.which(PROGRAM) is not None


async def start_redis(directory: Path, ports: PortBook) -> tuple[ChildProcess, int]:
    """Start a server with a config and data of its own; returns it with its port.

    Raises:
        ProcessFailedError: It did not become ready.
    """
    port = ports.choose("redis")["redis"]
    data = directory / "redis"
    await asyncio.to_thread(data.mkdir)
    config = data / "redis.conf"
    lines = (f"bind {LOOPBACK}", f"port {port}", f"dir {data}", "appendonly yes", "appendfsync always", 'save ""')
    await asyncio.to_thread(config.write_text, "\n".join(lines) + "\n")

    async def answers() -> bool:
        reader, writer = await asyncio.open_connection(LOOPBACK, port)
        writer.write(b"PING\r\n")
        pong = await reader.readline()
        writer.close()
        return pong == b"+PONG\r\n"

    log = directory / "logs" / "redis.log"
    command: list[str | Path] = [PROGRAM, config]
    return await ChildProcess.start("redis", command, log, ready=answers, deadline=30.0), port
