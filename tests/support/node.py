"""The shared real node, and Pods of the project's squid on it."""

import asyncio
import json
import os
import subprocess
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.kubectl import Kubectl


@dataclass(frozen=True, kw_only=True)
class RealNode:
    """What tests may know of the node.

    Attributes:
        kubeconfig: Of the node's own cluster, with our CRDs; shared, so leave others' objects alone.
        squid_image: The project's image, which is on the node.
        address: Where Pods reach this machine: servers that a test offers to Pods listen here.
        containerd_socket: For ``ctr``.
    """

    kubeconfig: Path
    squid_image: str
    address: str
    containerd_socket: Path

    def kill_container(self, kubectl: Kubectl, pod: str) -> None:
        """End every process of a Pod's first container with SIGKILL, behind the kubelet's back."""
        status = kubectl.get("pod", pod)["status"]["containerStatuses"][0]
        container = status["containerID"].removeprefix("containerd://")
        ctr = ["ctr", f"--address={self.containerd_socket}", "--namespace=k8s.io"]
        subprocess.run([*ctr, "tasks", "kill", "--signal=SIGKILL", "--all", container], check=True, timeout=30)


def node_of(facts: Mapping[str, str]) -> RealNode:
    """Return the node, or skip the test; with CI set, where everything must be tried, fail it."""
    if "unable" in facts:
        if os.environ.get("CI"):
            pytest.fail(f"CI must try the real node: {facts['unable']}")
        pytest.skip(facts["unable"])
    return RealNode(
        kubeconfig=Path(facts["kubeconfig"]),
        squid_image=facts["squid_image"],
        address=facts["address"],
        containerd_socket=Path(facts["containerd_socket"]),
    )


def make_restricted_namespace(kubeconfig: Path) -> Kubectl:
    """Make a namespace that enforces ``restricted`` and is ready for Pods."""
    kubectl = Kubectl(kubeconfig, f"test-{uuid.uuid4().hex[:12]}")
    label = {"pod-security.kubernetes.io/enforce": "restricted"}
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": kubectl.namespace, "labels": label}}
    applied = kubectl.apply(body)
    assert applied.returncode == 0, applied.stderr
    # The controller manager makes it; Pods are refused before.
    wait_until(lambda: kubectl.run("get", "serviceaccount", "default").returncode == 0)
    return kubectl


def wait_until(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    """Ask until the answer is yes."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"not within {seconds} s"
        time.sleep(0.1)


def squid_pod(image: str, *, command: list[str] | None = None, name: str = "squid") -> dict[str, Any]:
    """Return a Pod as ``restricted`` wants it, with a read-only root and 128 MiB."""
    container: dict[str, Any] = {
        "name": "squid",
        "image": image,
        "ports": [{"containerPort": 3128}],
        "readinessProbe": {"tcpSocket": {"port": 3128}, "periodSeconds": 1},
        "resources": {"limits": {"memory": "128Mi", "cpu": "1"}, "requests": {"cpu": "10m", "memory": "32Mi"}},
        "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
    }
    if command is not None:
        container["command"] = command
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "terminationGracePeriodSeconds": 10,
            "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [container],
            "volumes": [{"name": "tmp", "emptyDir": {}}],
        },
    }


def run_pod(kubectl: Kubectl, pod: Mapping[str, Any]) -> str:
    """Apply a Pod, wait until it is Ready and return its address."""
    applied = kubectl.apply(pod)
    assert applied.returncode == 0, applied.stderr
    name = pod["metadata"]["name"]
    ready = kubectl.run("wait", "--for=condition=Ready", f"pod/{name}", "--timeout=60s", timeout=70)
    if ready.returncode != 0:
        logs = kubectl.run("logs", name).stdout
        pytest.fail(f"{ready.stderr}\n{json.dumps(kubectl.get('pod', name)['status'], indent=1)}\n{logs}")
    return str(kubectl.get("pod", name)["status"]["podIP"])


async def tunnelled_echo(proxy: str, address: str, port: int = 3128, *, seconds: float = 10.0) -> bytes:
    """Serve an echo at ``address``, send ``ping`` to it through the proxy with CONNECT, and return what came back."""

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.readexactly(4))
        await writer.drain()
        writer.close()

    async with asyncio.timeout(seconds), await asyncio.start_server(echo, address, 0) as server:
        target = f"{address}:{server.sockets[0].getsockname()[1]}"
        reader, writer = await connect(proxy, target, port)
        writer.write(b"ping")
        answer = await reader.read()
        writer.close()
        await writer.wait_closed()
        return answer


async def connect(proxy: str, target: str, port: int = 3128) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Open a tunnel to ``host:port`` through a proxy; the answer must be 200."""
    reader, writer = await asyncio.open_connection(proxy, port)
    writer.write(f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n".encode())
    head = await reader.readuntil(b"\r\n\r\n")
    if head.split()[1] != b"200":
        writer.close()
        await writer.wait_closed()
        raise AssertionError(head)
    return reader, writer
