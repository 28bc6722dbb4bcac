"""Squid for the embedded stack: found, or installed where that is ours to do.

Run as a program (``python -m app.dev.squid``) it sees to squid and says what it did. Where ``CI`` is set in the
environment, a machine without squid is a failure.
"""

import asyncio
import os
import sys
from pathlib import Path

from app.dev.debian import POLICY, Report, install_command, install_package, may_install
from app.dev.report import say
from providers.local.software import find_squid

PACKAGE = "squid"


async def ensure_squid(report: Report) -> bool:
    """Install Debian's package ``squid`` where it is missing and we are root on Debian; True when squid is there.

    Elsewhere the command is named, and the stack goes on with proxy.py.
    """
    if find_squid() is not None:
        return True
    if not may_install():
        report(f"squid is not installed; what needs it is left out. On Debian, as root: {install_command(PACKAGE)}")
        return False
    return await install_squid(report) and find_squid() is not None


async def install_squid(report: Report, policy: Path = POLICY) -> bool:
    """Install the package as ``install_package`` does."""
    return await install_package(PACKAGE, report, policy)


def main() -> int:
    """See to squid and return the exit code."""
    if asyncio.run(ensure_squid(say)):
        return 0
    return 1 if os.environ.get("CI") else 0


if __name__ == "__main__":
    sys.exit(main())
