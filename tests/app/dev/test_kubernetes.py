import asyncio
import json
import stat
from pathlib import Path

import pytest
import yaml

from app.dev import binaries
from app.dev.kubernetes import ControlPlane
from app.dev.kubernetes_crds import apply_crds
from app.dev.processes import ProcessFailedError
from tests.conftest import ControlPlaneFactory
from tests.support.kubectl import Kubectl, proxy


async def test_state_and_address_survive_a_restart_and_a_kill(own_control_plane: ControlPlaneFactory) -> None:
    control_plane = await own_control_plane()
    kubectl = Kubectl(control_plane.kubeconfig)
    await apply_crds(control_plane.kubeconfig, binaries.kubectl())
    await asyncio.to_thread(kubectl.apply, proxy("kept", {"mode": "Managed", "provider": "local"}))
    uid = await kubectl.acall("get", "px", "kept", "-o", "jsonpath={.metadata.uid}")
    assert uid
    before = control_plane.kubeconfig.read_bytes()

    await control_plane.stop()
    assert list(control_plane.children) == []
    await control_plane.start()
    assert control_plane.kubeconfig.read_bytes() == before
    assert await kubectl.acall("get", "px", "kept", "-o", "jsonpath={.metadata.uid}") == uid

    for child in control_plane.children:
        await child.kill()
    await control_plane.stop()
    await control_plane.start()
    assert await kubectl.acall("get", "px", "kept", "-o", "jsonpath={.metadata.uid}") == uid


async def test_crds_can_be_applied_again(kubeconfig: Path) -> None:
    kubectl = Kubectl(kubeconfig)
    versions = ("get", "crd", "-o", "jsonpath={.items[*].metadata.resourceVersion}")
    before = await kubectl.acall(*versions)
    assert len(before.split()) == 2
    await apply_crds(kubeconfig, binaries.kubectl())
    assert await kubectl.acall(*versions) == before


async def test_the_kubeconfig_is_private_and_only_serves_its_holder(kubeconfig: Path, tmp_path: Path) -> None:
    assert stat.S_IMODE(kubeconfig.stat().st_mode) == 0o600  # noqa: ASYNC240
    stranger = yaml.safe_load(kubeconfig.read_text())  # noqa: ASYNC240
    stranger["users"][0]["user"] = {}
    path = tmp_path / "stranger"
    path.write_text(yaml.safe_dump(stranger))
    result = await Kubectl(path).arun("get", "namespaces", stdin="")
    assert result.returncode != 0


async def test_the_server_tells_its_version(kubeconfig: Path) -> None:
    version = json.loads(await Kubectl(kubeconfig).acall("version", "-o", "json"))["serverVersion"]
    assert int(version["major"]) == 1
    assert int(version["minor"].rstrip("+")) >= 30


async def test_a_namespace_goes_away_with_what_is_in_it(kubeconfig: Path, kube_namespace: str) -> None:
    kubectl = Kubectl(kubeconfig)
    name = f"{kube_namespace}-gone"
    await kubectl.acall("create", "namespace", name)
    await kubectl.acall("create", "configmap", "something", "--namespace", name)
    await kubectl.acall("delete", "namespace", name, "--timeout=60s", timeout=70)
    assert "NotFound" in (await kubectl.arun("get", "namespace", name)).stderr


async def test_a_program_that_does_not_start_is_reported_and_nothing_is_left_running(tmp_path: Path) -> None:
    broken = tmp_path / "kube-apiserver"
    broken.write_text("#!/bin/sh\necho cannot do that\nexit 3\n")
    broken.chmod(0o755)
    etcd = binaries.find(binaries.ETCD)
    assert etcd is not None
    control_plane = ControlPlane(tmp_path / "state", binaries.ControlPlaneBinaries(etcd=etcd, kube_apiserver=broken))
    with pytest.raises(ProcessFailedError, match=r"kube-apiserver ended with code 3(.|\n)*cannot do that"):
        await control_plane.start()
    assert control_plane.children == ()
