"""Squid for the embedded stack: found, or installed where that is ours to do."""

import asyncio
import os
import shutil
from collections.abc import Callable
from pathlib import Path

from providers.local.software import find_squid

_INSTALL_SECONDS = 300.0
_POLICY = Path("/usr/sbin/policy-rc.d")


async def ensure_squid(report: Callable[[str], None]) -> bool:
    """Install Debian's package ``squid`` where it is missing and we are root on Debian; True when squid is there.

    Elsewhere the command is named, and the stack goes on with proxy.py.
    """
    if find_squid() is not None:
        return True
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        report("squid is not installed; the stack goes on with proxy.py. On Debian: apt-get install squid")
        return False
    report("installing Debian's package squid (once per machine)")
    for command in (["apt-get", "update"], ["apt-get", "install", "--yes", "--no-install-recommends", "squid"]):
        code, tail = await _run(command)
        if code != 0:
            report(f"{' '.join(command)} failed, the stack goes on with proxy.py: {tail}")
            return False
    return find_squid() is not None


async def _run(command: list[str]) -> tuple[int, str]:
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
    process = await asyncio.create_subprocess_exec(
        *command,
        env=environment,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        async with asyncio.timeout(_INSTALL_SECONDS):
            output, _ = await process.communicate()
    except TimeoutError:
        process.kill()
        await process.wait()
        return 1, f"no end within {_INSTALL_SECONDS:.0f} s"
    lines = output.decode("utf-8", "replace").splitlines()
    return process.returncode or 0, lines[-1] if lines else ""
