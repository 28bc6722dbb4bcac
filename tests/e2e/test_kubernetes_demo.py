"""``docs/demo/kubernetes.sh`` as a user runs it, on a real node."""

import asyncio
import os
import subprocess
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from app.dev import binaries
from tests.e2e.system import TOKEN, System
from tests.probing.certificates import Authority
from tests.probing.servers import Origin
from tests.support.kubectl import Kubectl
from tests.support.node import RealNode

SCRIPT = Path(__file__).resolve().parents[2] / "docs" / "demo" / "kubernetes.sh"
SCRIPT_SECONDS = 400.0
pytestmark = pytest.mark.timeout(SCRIPT_SECONDS + 120)


class Demo:
    """The script with what a user tells it."""

    def __init__(self, system: System, site: Origin, authority: Authority) -> None:
        kubectl = system.kubectl
        self.told = {
            **{name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")},
            "PATH": f"{binaries.kubectl().parent}{os.pathsep}{os.environ['PATH']}",
            "KUBECONFIG": str(kubectl.kubeconfig),
            "KUBECACHEDIR": str(kubectl.kubeconfig.parent / "kubectl-cache"),
            "CURL_CA_BUNDLE": str(authority.path),
            "NAMESPACE": kubectl.namespace,
            "PROVIDER": "pods",
            "API_URL": f"http://127.0.0.1:{system.api_port}",
            "TOKEN": TOKEN,
            "PAGE_URL": site.url,
            "PROBE_URL": site.url,
        }

    async def run(self, more: Mapping[str, str] | None = None) -> "subprocess.CompletedProcess[str]":
        """Run it to its end."""

        def run() -> "subprocess.CompletedProcess[str]":
            return subprocess.run(
                ["bash", str(SCRIPT)],
                env={**self.told, **(more or {})},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=SCRIPT_SECONDS,
                check=False,
            )

        return await asyncio.to_thread(run)


async def test_three_pods_are_made_leased_killed_replaced_and_deleted(
    node: RealNode,
    node_site: Origin,
    e2e_authority: Authority,
    system_on_node: Callable[[Kubectl], System],
) -> None:
    kubectl = Kubectl(node.kubeconfig, f"test-{uuid.uuid4().hex[:12]}")
    demo = Demo(system_on_node(kubectl), node_site, e2e_authority)

    ended = await demo.run()

    assert ended.returncode == 0, ended.stdout
    shown = [
        f"namespace {kubectl.namespace}, made just now, enforces restricted",
        "proxy.crawl.example.com/kubernetes-demo-3 condition met",
        node.squid_image,
        "kubernetes-demo-1: CONNECT, then GET https://",
        "<h1>a page</h1>",
        "kubernetes-demo-3: reported ok, and released",
        "--now --wait=false",
        "kubernetes-demo-2: reported transport_error",
        "now has",
        "409 lease_revoked",
        '"kubernetes-demo-3" deleted',
        "gone: Pod",
        "everything was as said",
    ]
    positions = [ended.stdout.find(text) for text in shown]
    assert -1 not in positions, ended.stdout
    assert positions == sorted(positions), ended.stdout
    assert TOKEN not in ended.stdout
    assert await kubectl.acall("get", "namespace", kubectl.namespace, "--ignore-not-found") == ""


async def test_a_failure_is_one_clear_line_and_nothing_is_left(
    node_site: Origin,
    node_kubectl: Kubectl,
    e2e_authority: Authority,
    system_on_node: Callable[[Kubectl], System],
) -> None:
    demo = Demo(system_on_node(node_kubectl), node_site, e2e_authority)

    ended = await demo.run({"PROVIDER": "nobodys", "WAIT": "5"})

    assert ended.returncode == 1, ended.stdout
    assert "the demo failed: `kubectl wait` did not succeed; see the lines above" in ended.stdout
    # The state that the Proxies were in is shown before they are removed.
    assert "removing the Proxies of the demo" in ended.stdout
    assert "nobodys" in ended.stdout.partition("removing the Proxies of the demo")[2]
    assert await node_kubectl.acall("get", "px") == ""
    # A namespace that was there stays.
    assert node_kubectl.get("namespace", node_kubectl.namespace)["status"]["phase"] == "Active"


@pytest.mark.parametrize(
    ("more", "line"),
    [
        ({"TOKEN": "another"}, "refuses the token: set TOKEN"),
        ({"NAMESPACE": "kube-public"}, "namespace kube-public enforces 'nothing' and not 'restricted'"),
        ({"WAIT": "a while"}, "WAIT is 'a while': give whole seconds"),
    ],
)
async def test_what_the_script_cannot_work_with_is_named(
    more: dict[str, str],
    line: str,
    node_site: Origin,
    node_kubectl: Kubectl,
    e2e_authority: Authority,
    system_on_node: Callable[[Kubectl], System],
) -> None:
    demo = Demo(system_on_node(node_kubectl), node_site, e2e_authority)

    ended = await demo.run(more)

    assert ended.returncode == 1, ended.stdout
    [told] = [text for text in ended.stdout.splitlines() if text.startswith("the demo failed:")]
    assert line in told
