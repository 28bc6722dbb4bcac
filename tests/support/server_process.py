"""Runs one shared server until the test session that asked for it is over."""

import asyncio
import fcntl
import json
import os
import sys
from pathlib import Path

from app.dev import binaries
from app.dev.kubernetes import ControlPlane
from app.dev.kubernetes_crds import apply_crds
from app.dev.node_machine import why_not_ready
from app.dev.node_stack import running_node
from app.dev.temporal import TemporalServer
from tests.support.shared_servers import session_lock

POLL_SECONDS = 0.2


async def run_control_plane(directory: Path) -> None:
    """Run a control plane with our CRDs."""
    control_plane = ControlPlane(directory / "kubernetes", binaries_that_are_there(), fsync=False)
    await control_plane.start()
    try:
        await apply_crds(control_plane.kubeconfig, binaries.kubectl())
        tell(directory / "kubernetes.json", {"kubeconfig": str(control_plane.kubeconfig)})
        await session_over(directory)
    finally:
        await control_plane.stop()


async def run_temporal(directory: Path) -> None:
    """Run a Temporal server."""
    server = TemporalServer(directory / "temporal", binaries.temporal(), synchronous="OFF")
    await server.start()
    try:
        tell(directory / "temporal.json", {"address": server.address})
        await session_over(directory)
    finally:
        await server.stop()


async def run_node(directory: Path) -> None:
    """Run a control plane of its own with a node; where the machine cannot host one, say why."""
    reason = await asyncio.to_thread(why_not_ready)
    if reason is not None:
        tell(directory / "node.json", {"unable": reason})
        return
    async with running_node(directory / "node", fsync=False) as cluster:
        facts = {
            "kubeconfig": str(cluster.kubeconfig),
            "squid_image": cluster.squid_image,
            "address": cluster.address,
            "containerd_socket": str(cluster.containerd_socket),
        }
        tell(directory / "node.json", facts)
        await session_over(directory)


def binaries_that_are_there() -> binaries.ControlPlaneBinaries:
    """Return the control plane's programs; a build takes longer than a test may."""
    found = {name: binaries.find(name) for name in binaries.CONTROL_PLANE}
    missing = [name for name, path in found.items() if path is None]
    if missing:
        sys.exit(f"{', '.join(missing)} not found: run `python -m app.dev.binaries` once, which builds what is missing")
    etcd, kube_apiserver = found[binaries.ETCD], found[binaries.KUBE_APISERVER]
    assert etcd is not None
    assert kube_apiserver is not None
    return binaries.ControlPlaneBinaries(
        etcd=etcd,
        kube_apiserver=kube_apiserver,
        kube_controller_manager=found[binaries.KUBE_CONTROLLER_MANAGER],
    )


def tell(path: Path, facts: dict[str, str]) -> None:
    """Write facts so that a reader sees all of them or none."""
    temporary = path.with_suffix(".new")
    temporary.write_text(json.dumps(facts))
    temporary.replace(path)


async def session_over(directory: Path) -> None:
    """Wait until nobody holds the session's lock any more."""
    lock = os.open(session_lock(directory), os.O_RDWR)
    try:
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                await asyncio.sleep(POLL_SECONDS)
    finally:
        os.close(lock)


if __name__ == "__main__":
    run = {"kubernetes": run_control_plane, "temporal": run_temporal, "node": run_node}[sys.argv[1]]
    asyncio.run(run(Path(sys.argv[2])))
