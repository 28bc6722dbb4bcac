import asyncio
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psutil
import pytest

from app.dev import node_leftovers, node_network, node_slots
from app.dev.binaries import ControlPlaneBinaries, NodeBinaries
from app.dev.kubernetes import ControlPlane
from app.dev.node import Node, takes_pods
from app.dev.node_paths import NodePaths
from app.dev.node_stack import running_node
from app.dev.processes_guard import runs
from model.errors import ConfigurationError
from tests.support.kubectl import Kubectl
from tests.support.node import (
    RealNode,
    connect,
    make_restricted_namespace,
    run_pod,
    squid_pod,
    tunnelled_echo,
    wait_until,
)

REPOSITORY = Path(__file__).resolve().parents[3]
START_SECONDS = 120
SLOW = pytest.mark.timeout(300)


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """A folder whose path leaves room for the names of sockets, which pytest's own does not."""
    folder = Path(tempfile.mkdtemp(prefix="node-"))
    yield folder
    shutil.rmtree(folder)


def squid_process(paths: NodePaths) -> psutil.Process:
    [process] = [process for process in node_leftovers.processes(paths) if process.name() == "squid"]
    return process


def assert_nothing_left(paths: NodePaths) -> None:
    assert node_leftovers.processes(paths) == []
    assert node_leftovers.mounts(paths) == []
    assert not node_network.bridge_exists(paths.bridge)
    assert node_network.rules(paths.bridge) == []
    assert [folder for folder in paths.disposable if folder.exists()] == []
    assert list(Path("/var/lib/cni/results").glob(f"{paths.bridge}-*")) == []


def links_of_logs(paths: NodePaths) -> list[Path]:
    return [link for link in Path("/var/log/containers").glob("*") if link.readlink().is_relative_to(paths.state)]


async def test_a_restricted_pod_serves_a_tunnel_at_its_address(node: RealNode, node_kubectl: Kubectl) -> None:
    address = await asyncio.to_thread(run_pod, node_kubectl, squid_pod(node.squid_image))
    assert await tunnelled_echo(address, node.address) == b"ping"


async def test_people_can_look_into_a_pod(node: RealNode, node_kubectl: Kubectl) -> None:
    await asyncio.to_thread(run_pod, node_kubectl, squid_pod(node.squid_image))
    assert "Accepting HTTP Socket connections" in await node_kubectl.acall("logs", "squid")
    status = await node_kubectl.acall("exec", "squid", "--", "cat", "/proc/1/status")
    fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    assert fields["Name"] == "squid"
    assert set(fields["Uid"].split()) == {"13"}
    assert int(fields["CapEff"], 16) == 0


async def test_the_image_alone_keeps_descriptors_and_memory_small(node: RealNode, node_kubectl: Kubectl) -> None:
    await asyncio.to_thread(run_pod, node_kubectl, squid_pod(node.squid_image))
    limits = await node_kubectl.acall("exec", "squid", "--", "cat", "/proc/1/limits")
    [files] = [line.split()[3:5] for line in limits.splitlines() if line.startswith("Max open files")]
    assert files == ["4096", "4096"]
    status = await node_kubectl.acall("exec", "squid", "--", "cat", "/proc/1/status")
    [resident] = [int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS")]
    assert resident < 64 * 1024


async def test_a_low_hard_limit_is_kept_and_told(node: RealNode, node_kubectl: Kubectl) -> None:
    low = ["sh", "-c", "ulimit -n 1024; exec /usr/local/bin/egress-proxy"]
    address = await asyncio.to_thread(run_pod, node_kubectl, squid_pod(node.squid_image, command=low))
    assert await tunnelled_echo(address, node.address) == b"ping"
    said = await node_kubectl.acall("logs", "squid")
    assert "MAX_FILEDESCRIPTORS lowered from 4096 to 1024" in said
    assert "With 1024 file descriptors available" in said


async def test_a_killed_squid_listens_again_within_ten_seconds(node: RealNode, node_kubectl: Kubectl) -> None:
    address = await asyncio.to_thread(run_pod, node_kubectl, squid_pod(node.squid_image))
    await asyncio.to_thread(node.kill_container, node_kubectl, "squid")
    killed = time.monotonic()
    while True:
        try:
            assert await tunnelled_echo(address, node.address) == b"ping"
            break
        except (OSError, EOFError):
            assert time.monotonic() - killed < 10
            await asyncio.sleep(0.1)
    restarts = ("get", "pod", "squid", "-o", "jsonpath={.status.containerStatuses[0].restartCount}")
    await asyncio.to_thread(wait_until, lambda: node_kubectl(*restarts) == "1")


async def test_a_pod_with_an_open_tunnel_is_deleted_within_ten_seconds(node: RealNode, node_kubectl: Kubectl) -> None:
    address = await asyncio.to_thread(run_pod, node_kubectl, squid_pod(node.squid_image))
    opened = asyncio.Event()

    async def hold(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        opened.set()
        await reader.read()
        writer.close()

    async with await asyncio.start_server(hold, node.address, 0) as server:
        port = server.sockets[0].getsockname()[1]
        _, writer = await connect(address, f"{node.address}:{port}")
        async with asyncio.timeout(10):
            await opened.wait()
        started = time.monotonic()
        await node_kubectl.acall("delete", "pod", "squid", "--timeout=60s", timeout=70)
        assert time.monotonic() - started < 10
        writer.close()


async def test_metadata_and_the_pods_own_services_stay_out_of_reach(node: RealNode, node_kubectl: Kubectl) -> None:
    address = await asyncio.to_thread(run_pod, node_kubectl, squid_pod(node.squid_image))
    for target in ("169.254.169.254:80", "127.0.0.1:3128"):
        with pytest.raises(AssertionError, match="403 Forbidden"):
            await connect(address, target)


@SLOW
async def test_nodes_live_side_by_side_and_a_stopped_one_leaves_nothing(
    node: RealNode, node_kubectl: Kubectl, short_folder: Path
) -> None:
    address = await asyncio.to_thread(run_pod, node_kubectl, squid_pod(node.squid_image))
    async with running_node(short_folder, fsync=False) as second:
        assert second.address != node.address
        kubectl = await asyncio.to_thread(make_restricted_namespace, second.kubeconfig)
        other = await asyncio.to_thread(run_pod, kubectl, squid_pod(second.squid_image))
        assert await tunnelled_echo(other, second.address) == b"ping"
        paths = second.node.paths
        squid = squid_process(paths)
        groups = node_leftovers.control_groups(paths)
        assert groups
        assert links_of_logs(paths)
        assert node_leftovers.mounts(paths)
        with pytest.raises(ConfigurationError, match="another node runs in"):
            await asyncio.to_thread(node_slots.claim, paths.state)
    assert not runs(squid)
    assert not any(group.exists() for group in groups)
    assert_nothing_left(paths)
    assert links_of_logs(paths) == []
    assert await tunnelled_echo(address, node.address) == b"ping"


@SLOW
async def test_the_next_node_removes_what_a_killed_owner_left(node: RealNode, short_folder: Path) -> None:
    command = [sys.executable, "-m", "tests.support.node_owner", str(short_folder)]
    # The node's fixture says whether the machine can host one at all.
    owner = await asyncio.create_subprocess_exec(
        *command, cwd=REPOSITORY, stdout=asyncio.subprocess.PIPE, start_new_session=True
    )
    try:
        assert owner.stdout is not None
        async with asyncio.timeout(START_SECONDS):
            facts = json.loads(await owner.stdout.readline())
        kubectl = await asyncio.to_thread(make_restricted_namespace, Path(facts["kubeconfig"]))
        await asyncio.to_thread(run_pod, kubectl, squid_pod(node.squid_image))
        number = facts["number"]
        paths = NodePaths(number=number, state=short_folder / "node", run=node_slots.SLOTS / str(number))
        squid = squid_process(paths)
        groups = node_leftovers.control_groups(paths)
        assert groups
    finally:
        owner.kill()
        await owner.wait()
    slot = await asyncio.to_thread(node_slots.claim, short_folder / "next")
    await asyncio.to_thread(slot.release)

    assert not runs(squid)
    assert not any(group.exists() for group in groups)
    assert_nothing_left(paths)
    assert links_of_logs(paths) == []


def test_a_folder_too_deep_for_sockets_is_refused(tmp_path: Path) -> None:
    programs = ControlPlaneBinaries(etcd=tmp_path, kube_apiserver=tmp_path)
    node_programs = NodeBinaries(kubelet=tmp_path, kube_scheduler=tmp_path)
    with pytest.raises(ConfigurationError, match="choose a shorter one"):
        Node(ControlPlane(tmp_path, programs), tmp_path / ("x" * 80), node_programs, [])


def test_a_node_takes_pods_once_its_kubelet_has_said_so_in_this_run() -> None:
    now = datetime.now(UTC).replace(microsecond=0)

    def said(at: datetime, status: str = "True", taints: list[dict[str, str]] | None = None) -> bool:
        ready = {"type": "Ready", "status": status, "lastHeartbeatTime": at.isoformat().replace("+00:00", "Z")}
        spec = {} if taints is None else {"taints": taints}
        return takes_pods({"spec": spec, "status": {"conditions": [ready]}}, now)

    assert said(now)
    assert not said(now - timedelta(seconds=1))
    assert not said(now, "False")
    assert not said(now, taints=[{"key": "node.kubernetes.io/not-ready"}])
    assert not takes_pods({"spec": {}, "status": {}}, now)
