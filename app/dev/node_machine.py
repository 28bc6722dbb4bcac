"""Whether this machine can host a node, and making it ready to.

Run as a program (``python -m app.dev.node_machine``) it installs and builds what is missing and says how long each step
took. Where ``CI`` is set in the environment, a machine that cannot host a node is a failure.
"""

import asyncio
import os
import shutil
import sys
from pathlib import Path

from app.dev import binaries, images, node_network
from app.dev.commands import CommandFailedError
from app.dev.debian import install_command, install_packages, may_install
from app.dev.node_config import CNI_PLUGINS
from app.dev.node_leftovers import CONTROL_GROUPS
from app.dev.report import progress, say, step
from model.errors import ConfigurationError

_CAP_NET_ADMIN, _CAP_SYS_ADMIN = 12, 21
_CONTROLLERS = ("memory", "pids", "cpu")


def why_not_possible() -> str | None:
    """Return why this machine can never host a node, whatever is installed, or None."""
    if sys.platform != "linux":
        return f"a node needs Linux, and this is {sys.platform}"
    if os.geteuid() != 0:
        return "a node needs root, for containers, mounts and a bridge"
    if not _has_capabilities(_CAP_NET_ADMIN, _CAP_SYS_ADMIN):
        return (
            "a node needs the capabilities NET_ADMIN and SYS_ADMIN, which this root lacks (an unprivileged container?)"
        )
    if not os.access(CONTROL_GROUPS, os.W_OK):
        return f"a node needs to make control groups, and {CONTROL_GROUPS} cannot be written to"
    missing = [name for name in _CONTROLLERS if not _has_controller(name)]
    if missing:
        return f"a node needs control groups for {', '.join(missing)}, and {CONTROL_GROUPS} offers none"
    return None


def why_not_ready() -> str | None:
    """Return why a node cannot start on this machine now, or None; nothing is installed, built or changed."""
    impossible = why_not_possible()
    if impossible is not None:
        return impossible
    packages = missing_packages()
    if packages:
        return f"a node needs {', '.join(packages)}: run `make node`, or {install_command(*packages)}"
    programs = [name for name in (*binaries.CONTROL_PLANE, *binaries.NODE) if binaries.find(name) is None]
    if programs:
        return f"a node needs {', '.join(programs)}, which `make node` builds"
    try:
        node_network.rules("none")
    except CommandFailedError as error:
        return f"a node needs a rule of iptables, and it cannot be used here: {error}"
    if images.find() is None:
        return "a node needs its images, which `make node` builds"
    return None


def missing_packages() -> list[str]:
    """Return the Debian packages of a node whose programs are missing; those that only build are not asked for."""
    programs = {"containerd": "containerd", "runc": "runc", "ip": "iproute2", "iptables": "iptables"}
    missing = [package for program, package in programs.items() if shutil.which(program) is None]
    if not (CNI_PLUGINS / "bridge").exists():
        missing.append("containernetworking-plugins")
    return missing


async def make_ready() -> str | None:
    """Install and build what is missing, and return why a node cannot start all the same, or None.

    Raises:
        ConfigurationError: A build failed.
    """
    impossible = why_not_possible()
    if impossible is not None:
        return impossible
    builders = [name for name in images.PACKAGES if images.find() is None and shutil.which(name) is None]
    packages = [*missing_packages(), *builders]
    if packages:
        if not may_install():
            return f"a node needs {', '.join(packages)}; on Debian, as root: {install_command(*packages)}"
        with step("Debian packages of a node"):
            if not await install_packages(packages, progress):
                return f"a node needs {', '.join(packages)}, which could not be installed"
    with step("kubelet and kube-scheduler (built from Go modules once per machine)"):
        await binaries.node(os.environ, progress)
    with step("images of squid and pause (built once per machine)"):
        await images.find_or_build(os.environ, progress)
    return await asyncio.to_thread(why_not_ready)


def _has_capabilities(*numbers: int) -> bool:
    status = Path("/proc/self/status").read_text()
    effective = int(next(line.split()[1] for line in status.splitlines() if line.startswith("CapEff:")), 16)
    return all(effective >> number & 1 for number in numbers)


def _has_controller(name: str) -> bool:
    """Whether version 1 or version 2 of the control groups has a controller."""
    if (CONTROL_GROUPS / name / "cgroup.procs").exists():
        return True
    unified = CONTROL_GROUPS / "cgroup.controllers"
    return unified.exists() and name in unified.read_text().split()


def main() -> int:
    """Make the machine ready and return the exit code."""
    try:
        reason = asyncio.run(make_ready())
    except ConfigurationError as error:
        say(str(error))
        return 1
    if reason is None:
        return 0
    say(f"no node on this machine, and tests that need one are skipped: {reason}")
    return 1 if os.environ.get("CI") else 0


if __name__ == "__main__":
    sys.exit(main())
