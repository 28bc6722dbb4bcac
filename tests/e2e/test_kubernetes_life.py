"""Proxies that are Pods on a real node, with the whole system around them."""

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.e2e.polling import eventually
from tests.e2e.system import System
from tests.probing.servers import Origin
from tests.support.kubectl import Kubectl
from tests.support.node import RealNode, make_restricted_namespace, tunnelled_echo

READY_SECONDS = 90.0
pytestmark = pytest.mark.timeout(5 * READY_SECONDS)


def managed(site: Origin) -> dict[str, Any]:
    check = {"probeURL": site.url, "intervalSeconds": 1, "timeoutSeconds": 2}
    return {"mode": "Managed", "provider": "pods", "healthCheck": check}


def pod_of(proxy: dict[str, Any]) -> str:
    namespace, _, pod = proxy["status"]["providerID"].partition("/")
    assert namespace == proxy["metadata"]["namespace"]
    return str(pod)


# A Pod removed by force leaves the API server before its processes have ended.
@pytest.mark.parametrize("how", [["--now"], ["--force", "--grace-period=0"]], ids=["gracefully", "by-force"])
async def test_a_pod_deleted_by_hand_is_replaced(
    how: list[str],
    node: RealNode,
    node_site: Origin,
    node_kubectl: Kubectl,
    system_on_node: Callable[[Kubectl], System],
) -> None:
    system = system_on_node(node_kubectl)
    await system.apply("px", managed(node_site))
    before = await system.wait_ready("px", READY_SECONDS)

    await node_kubectl.acall("delete", "pod", pod_of(before), "--wait=false", *how)

    def replaced(seen: dict[str, Any]) -> bool:
        status = seen["status"]
        return status.get("incarnation", "") not in ("", before["status"]["incarnation"]) and status["phase"] == "Ready"

    after = await system.wait_for("px", replaced, READY_SECONDS)
    pod = await asyncio.to_thread(node_kubectl.get, "pod", pod_of(after))
    assert pod["metadata"]["uid"] == after["status"]["incarnation"]
    assert pod["status"]["podIP"] == after["status"]["ip"]
    assert await tunnelled_echo(after["status"]["ip"], node.address) == b"ping"
    listed = await eventually(system.list_proxies, lambda found: found["px"]["healthy"])
    assert listed["px"]["ip"] == after["status"]["ip"]


async def test_a_squid_killed_on_the_node_is_back_in_the_same_pod(
    node: RealNode, node_site: Origin, node_kubectl: Kubectl, system_on_node: Callable[[Kubectl], System]
) -> None:
    system = system_on_node(node_kubectl)
    await system.apply("px", managed(node_site))
    before = await system.wait_ready("px", READY_SECONDS)

    await asyncio.to_thread(node.kill_container, node_kubectl, pod_of(before))

    async def restarts() -> int:
        pod = await asyncio.to_thread(node_kubectl.get, "pod", pod_of(before))
        return int(pod["status"]["containerStatuses"][0]["restartCount"])

    await eventually(restarts, lambda count: count == 1, READY_SECONDS)
    probes = len(node_site.requests)
    await eventually(_probes(node_site), lambda count: count > probes, READY_SECONDS)
    after = await system.wait_ready("px", READY_SECONDS)
    assert after["status"]["incarnation"] == before["status"]["incarnation"]


def _probes(site: Origin) -> Callable[[], Any]:
    async def count() -> int:
        return len(site.requests)

    return count


async def test_the_pod_of_a_deleted_proxy_is_gone_within_10_seconds(
    node_site: Origin, node_kubectl: Kubectl, system_on_node: Callable[[Kubectl], System]
) -> None:
    system = system_on_node(node_kubectl)
    await system.apply("px", managed(node_site))
    pod = pod_of(await system.wait_ready("px", READY_SECONDS))
    began = time.monotonic()

    await node_kubectl.acall("delete", "px", "px", "--timeout=60s", timeout=70)

    # The finalizer goes after the Pod, so nothing has to be waited for.
    assert await node_kubectl.acall("get", "pod", pod, "--ignore-not-found") == ""
    assert time.monotonic() - began < 10
    assert await eventually(system.list_proxies, lambda found: found == {}) == {}


async def test_a_deleted_namespace_ends_with_its_proxies_and_their_pods(
    node: RealNode, node_site: Origin, system_on_node: Callable[[Kubectl], System]
) -> None:
    kubectl = await asyncio.to_thread(make_restricted_namespace, node.kubeconfig)
    system = system_on_node(kubectl)
    names = ["one", "two", "three"]
    for name in names:
        await system.apply(name, managed(node_site))
    for name in names:
        await system.wait_ready(name, READY_SECONDS)

    await kubectl.acall("delete", "namespace", kubectl.namespace, "--timeout=90s", timeout=100)

    assert await kubectl.acall("get", "namespace", kubectl.namespace, "--ignore-not-found") == ""
    for name in names:
        workflow = await system.workflow(name)
        async with asyncio.timeout(30):
            await workflow.result()
    assert await eventually(system.list_proxies, lambda found: found == {}) == {}
