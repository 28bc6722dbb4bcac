"""Packages of Debian that the embedded stack and the benches need, installed without the services they bring."""

import asyncio
import contextlib
import os
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

POLICY = Path("/usr/sbin/policy-rc.d")
"""What Debian's packages ask before they start a service; 101 means that they must not (see invoke-rc.d(8))."""
_OUR_POLICY = "#!/bin/sh\n# Made by egress-proxies while it installs a package; it can be removed.\nexit 101\n"
_COMMAND_SECONDS = 600.0
_ROOT = 0

Report = Callable[[str], None]


def install_command(*packages: str) -> str:
    """Return the command that a person would type."""
    return f"apt-get install --no-install-recommends {' '.join(packages)}"


def may_install() -> bool:
    """Whether installing packages is ours to do: we are root, and apt-get is there."""
    return os.geteuid() == _ROOT and shutil.which("apt-get") is not None


async def install_package(package: str, report: Report, policy: Path = POLICY) -> bool:
    """Install one package as ``install_packages`` does."""
    return await install_packages([package], report, policy)


async def install_packages(packages: Sequence[str], report: Report, policy: Path = POLICY) -> bool:
    """Install packages without starting their system services; True when that worked.

    Args:
        packages: Their names.
        report: Gets a line at the start and at the end.
        policy: Where Debian looks for a rule about services. One that is there is left alone, because it says what
            the machine's owner wants; otherwise ours stands there while the package is installed.
    """
    names = ", ".join(packages)
    report(f"installing Debian's {names}, without any service ({install_command(*packages)})")
    started = time.monotonic()
    try:
        with _no_service_started(policy):
            # An index that cannot be brought up to date, of some other source for instance, may still be good enough.
            _, update_said = await _run("apt-get", "--quiet", "update")
            code, said = await _run("apt-get", "--quiet", "install", "--yes", "--no-install-recommends", *packages)
    except OSError as error:
        code, update_said, said = 1, "", str(error)
    if code != 0:
        report(f"installing {names} failed, what needs it is left out: {said} (apt-get update: {update_said})")
        return False
    report(f"installed {names} in {time.monotonic() - started:.0f} s")
    return True


@contextlib.contextmanager
def _no_service_started(policy: Path) -> Iterator[None]:
    # One of ours that is there already was left by a run that was killed.
    ours = not policy.exists() or policy.read_bytes() == _OUR_POLICY.encode()
    if ours:
        policy.write_text(_OUR_POLICY)
        policy.chmod(0o755)
    try:
        yield
    finally:
        if ours:
            policy.unlink(missing_ok=True)


async def _run(*command: str) -> tuple[int, str]:
    """Return the exit code of a command and the last line it wrote."""
    process = await asyncio.create_subprocess_exec(
        *command,
        # A lock that another apt-get holds is waited for.
        *("-o", "DPkg::Lock::Timeout=300"),
        env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        # A Ctrl-C in the terminal reaches us alone, and we end it in an orderly way.
        start_new_session=True,
    )
    try:
        async with asyncio.timeout(_COMMAND_SECONDS):
            output, _ = await process.communicate()
    except TimeoutError:
        return 1, f"{' '.join(command)} did not end within {_COMMAND_SECONDS:.0f} s"
    finally:
        if process.returncode is None:
            process.terminate()
            await process.wait()
    lines = output.decode("utf-8", "replace").split("\n")
    return process.returncode or 0, next((line.strip() for line in reversed(lines) if line.strip()), "")
