"""Objects from before a bound was added."""

import asyncio
from pathlib import Path
from typing import Any

import yaml

from app.dev import binaries
from app.dev.kubernetes_crds import CRD_DIRECTORY, apply_crds
from tests.conftest import ControlPlaneFactory
from tests.deploy.proxy_cases import MANAGED, managed
from tests.support.kubectl import Kubectl, proxy

OUT_OF_BOUNDS = managed(
    maxLeases=20_000,
    attributes={"k" * 100: "v"},
    placement={"zone": "z" * 600},
    healthCheck={"probeURL": "ftp://example.com/"},
)


def without_bounds(schema: Any) -> Any:
    """Return a schema without its rules and limits."""
    if isinstance(schema, list):
        return [without_bounds(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    limits = {"maximum", "maxLength", "maxProperties", "x-kubernetes-validations"}
    return {key: without_bounds(value) for key, value in schema.items() if key not in limits}


async def test_an_object_outside_a_new_bound_can_still_be_updated_and_deleted(
    own_control_plane: ControlPlaneFactory, tmp_path: Path
) -> None:
    control_plane = await own_control_plane()
    kubectl = Kubectl(control_plane.kubeconfig)
    older = yaml.safe_load(await asyncio.to_thread((CRD_DIRECTORY / "crawl.example.com_proxies.yaml").read_text))
    older["spec"]["versions"][0]["schema"] = without_bounds(older["spec"]["versions"][0]["schema"])
    await asyncio.to_thread((tmp_path / "older.yaml").write_text, yaml.safe_dump(older))
    await kubectl.acall("apply", "--server-side", "-f", str(tmp_path / "older.yaml"))
    await kubectl.acall("wait", "--for=condition=Established", "crd/proxies.crawl.example.com", "--timeout=30s")
    created = await asyncio.to_thread(kubectl.apply, proxy("old", OUT_OF_BOUNDS), proxy("young", MANAGED))
    assert created.returncode == 0, created.stderr

    await apply_crds(control_plane.kubeconfig, binaries.kubectl())

    await refused_soon(kubectl, proxy("young", OUT_OF_BOUNDS))
    await kubectl.acall("label", "px", "old", "team=crawl")
    await kubectl.acall("patch", "px", "old", "--type=merge", '--patch={"spec":{"port":8080}}')
    await kubectl.acall(
        "patch", "px", "old", "--subresource=status", "--type=merge", '--patch={"status":{"phase":"Ready"}}'
    )
    changed = await kubectl.arun("patch", "px", "old", "--type=merge", '--patch={"spec":{"maxLeases":20001}}')
    assert "spec.maxLeases: Invalid value" in changed.stderr
    await kubectl.acall("delete", "px", "old", "--timeout=30s")


async def refused_soon(kubectl: Kubectl, body: dict[str, Any]) -> None:
    """Wait until the server judges by the newer schema, a moment after it was applied."""
    async with asyncio.timeout(30):
        while True:
            result = await asyncio.to_thread(kubectl.apply, body, arguments=["--dry-run=server"])
            if result.returncode != 0:
                assert "spec.maxLeases: Invalid value" in result.stderr
                return
            await asyncio.sleep(0.1)
