"""The clients' process, seen from the run."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from bench.results import BenchError
from bench.torture.totals import CrowdSettings

_ANSWER_SECONDS = 60.0
_LINE_BYTES = 1 << 20


class CrowdProcess:
    """Commands to the clients."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def longest_gap(self, since: float) -> float:
        """Return the longest time without a grant since a moment of ``time.monotonic``, in seconds."""
        return float((await self._ask({"ask": "gap", "since": since}))["seconds"])

    async def audit(self) -> dict[str, int]:
        """Have the API asked for every lease that is held; see ``bench.torture.clients.Crowd.audit``."""
        return await self._ask({"ask": "audit"})

    async def stop(self) -> dict[str, Any]:
        """Let the clients give everything back; returns ``answers`` and ``details``."""
        return await self._ask({"ask": "stop"})

    async def _ask(self, command: dict[str, Any]) -> dict[str, Any]:
        stdin, stdout = self._process.stdin, self._process.stdout
        if stdin is None or stdout is None:
            raise BenchError("the clients were started without pipes")
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                stdin.write(json.dumps(command).encode() + b"\n")
                await stdin.drain()
                line = await stdout.readline()
        except (TimeoutError, ConnectionError) as error:
            raise BenchError(f"the clients do not answer {command['ask']}: {type(error).__name__}") from error
        if not line:
            raise BenchError("the clients' process has ended; what it wrote last stands above")
        answer: dict[str, Any] = json.loads(line)
        return answer


@asynccontextmanager
async def crowd(settings: CrowdSettings) -> AsyncIterator[CrowdProcess]:
    """Start the clients, and end their process afterwards whatever happened."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "bench.torture.clients", json.dumps(settings.as_json())),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        limit=_LINE_BYTES,
        start_new_session=True,
    )
    try:
        yield CrowdProcess(process)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
