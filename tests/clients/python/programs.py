"""Runs a user's program."""

import asyncio
import sys
from dataclasses import dataclass


@dataclass(frozen=True)
class Ended:
    returncode: int
    stdout: str
    stderr: str


async def run_program(*arguments: str, environment: dict[str, str], within: float = 100.0) -> Ended:
    """Run Python with these arguments to its end."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *arguments,
        env=environment,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(within):
            stdout, stderr = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode is not None
    return Ended(process.returncode, stdout.decode(), stderr.decode())
