"""What others take away for a while: credentials, the whole of Temporal, a namespace."""

import asyncio
import base64
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from app.dev import binaries
from app.dev.kubernetes import ControlPlane
from app.dev.kubernetes_crds import apply_crds
from app.dev.temporal import TemporalServer
from tests.e2e.moody_box import moody_provider, register
from tests.e2e.polling import eventually
from tests.e2e.system import System, condition
from tests.probing.servers import Origin
from tests.support.kubectl import Kubectl, proxy


def managed(check: dict[str, object], **more: Any) -> dict[str, Any]:
    return {"mode": "Managed", "provider": "box", "healthCheck": check, **more}


@pytest.fixture
async def checked_system(
    own_control_plane: Callable[..., Awaitable[ControlPlane]],
    temporal_address: str,
    temporal_namespace: str,
    tmp_path: Path,
    site: Origin,
) -> AsyncIterator[System]:
    """An installation with a cluster of its own: what ProviderCheck publishes belongs to the whole cluster."""
    control_plane = await own_control_plane()
    await apply_crds(control_plane.kubeconfig, binaries.kubectl())
    system = System(Kubectl(control_plane.kubeconfig), temporal_address, temporal_namespace, tmp_path)
    system.provider_check_interval = timedelta(seconds=10)
    yield system
    await system.close()


@pytest.mark.timeout(300)
async def test_refused_credentials_are_told_and_everything_goes_on_once_the_providers_check_turns_good(
    checked_system: System, check: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    system = checked_system
    register(monkeypatch)
    system.write_providers(moody_provider(system, "box"))
    system.start_all()
    for name in ("running", "replaced", "deleted"):
        await system.apply(name, managed(check))
    before = {name: await system.wait_ready(name) for name in ("running", "replaced", "deleted")}
    refusal = system.directory / "providers" / "box" / "refuse"
    refusal.touch()

    await system.apply("replaced", managed(check, port=3129))
    await system.apply("new", managed(check))
    await system.kubectl.acall("delete", "px", "deleted", "--wait=false")
    for name in ("replaced", "new", "deleted"):
        body = await system.wait_for(name, lambda seen: condition(seen, "Provisioned").get("reason") == "AccessDenied")
        assert "the box does not know us" in condition(body, "Provisioned")["message"]
        assert body["status"]["phase"] != "Failed"
        assert body["metadata"]["finalizers"] == ["crawl.example.com/finalizer"]
    # What runs is not touched, and still handed out.
    assert (await system.get("running"))["status"]["phase"] == "Ready"
    for name, body in before.items():
        assert len(system.processes_of(body["metadata"]["uid"])) == 1, name
    async with system.crawler() as crawler, crawler.post("/v1/leases", json={}) as answer:
        assert answer.status == 201

    async def check_says() -> str:
        health = json.loads(await system.kubectl.acall("get", "ph", "box", "-o", "json", "--ignore-not-found") or "{}")
        return str(condition(health, "Ready").get("status"))

    await eventually(check_says, lambda ready: ready == "False", within=60)
    refusal.unlink()

    # By themselves they would try again after five minutes.
    await system.wait_for("deleted", lambda seen: seen == {}, within=90)
    assert system.processes_of(before["deleted"]["metadata"]["uid"]) == []
    first = before["replaced"]["status"]["incarnation"]
    await system.wait_for(
        "replaced",
        lambda seen: seen["status"]["phase"] == "Ready" and seen["status"]["incarnation"] not in ("", first),
    )
    await system.wait_ready("new")
    assert (await system.get("running"))["status"]["incarnation"] == before["running"]["status"]["incarnation"]


@pytest.mark.fault
@pytest.mark.timeout(240)
async def test_a_wiped_temporal_adopts_everything_and_creates_nothing_twice(
    kubectl: Kubectl,
    own_temporal: Callable[..., Awaitable[TemporalServer]],
    tmp_path: Path,
    check: dict[str, object],
) -> None:
    server = await own_temporal(synchronous="OFF")
    system = System(kubectl, server.address, "default", tmp_path)
    system.relist_interval = timedelta(seconds=5)
    names = [f"px-{number}" for number in range(4)]
    try:
        system.start_all()
        for name in names:
            await system.apply(name, managed(check))
        before = {name: await system.wait_ready(name) for name in names}
        pids = {name: system.processes_of(body["metadata"]["uid"]) for name, body in before.items()}

        await server.stop()
        await asyncio.to_thread(wipe, tmp_path)
        # While nobody remembers anything, one is edited and one is deleted.
        await system.apply("px-2", managed(check, port=3129))
        await system.kubectl.acall("delete", "px", "px-3", "--wait=false")
        await server.start()

        await system.wait_for("px-3", lambda seen: seen == {}, within=90)
        assert system.processes_of(before["px-3"]["metadata"]["uid"]) == []
        first = before["px-2"]["status"]["incarnation"]
        await system.wait_for(
            "px-2",
            lambda seen: seen["status"]["phase"] == "Ready" and seen["status"]["incarnation"] not in ("", first),
            within=90,
        )
        assert len(system.processes_of(before["px-2"]["metadata"]["uid"])) == 1
        listed = await eventually(
            system.list_proxies,
            lambda found: sorted(found) == names[:3] and all(view["healthy"] for view in found.values()),
            within=60,
        )
        for name in names[:2]:
            after = await system.wait_ready(name)
            assert after["status"]["incarnation"] == before[name]["status"]["incarnation"]
            assert system.processes_of(after["metadata"]["uid"]) == pids[name]
            assert listed[name]["ip"] == after["status"]["ip"]
            await eventually(lambda name=name: system.history_length(name), lambda length: length > 0)  # type: ignore[misc]
    finally:
        await system.close()


@pytest.mark.timeout(360)
async def test_a_deleted_namespace_leaves_no_instance_and_no_finalizer(
    system: System, check: dict[str, object], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, logger="cluster.events")
    register(monkeypatch)
    system.write_providers(moody_provider(system, "box"))
    system.start_all()
    names = [f"px-{number}" for number in range(5)]
    bodies: list[dict[str, Any]] = [secret(name) for name in names]
    bodies += [proxy(name, managed(check, cloudInit={"secretRef": {"name": name}})) for name in names]
    applied = await asyncio.to_thread(system.kubectl.apply, *bodies)
    assert applied.returncode == 0, applied.stderr
    for name in names:
        await system.wait_ready(name, within=60)
    # One that is still on its way when the end comes, and one whose Secret never was.
    late = [proxy("late", managed(check)), proxy("stuck", managed(check, cloudInit={"secretRef": {"name": "none"}}))]
    applied = await asyncio.to_thread(system.kubectl.apply, *late)
    assert applied.returncode == 0, applied.stderr

    namespace = system.kubectl.namespace
    caplog.clear()
    await system.kubectl.acall("delete", "namespace", namespace, "--wait=false")
    # Ours to do; how soon the namespace controller looks again is its own affair, with pauses of many seconds.
    await eventually(lambda: asyncio.to_thread(system.processes_by_instance), lambda found: found == {}, within=100)
    await system.kubectl.acall("wait", f"namespace/{namespace}", "--for=delete", "--timeout=200s", timeout=210)

    assert system.processes_by_instance() == {}
    # A namespace that is being terminated takes no Events, and nothing waits for them.
    refused = [record for record in caplog.records if "is being terminated" in record.getMessage()]
    assert refused
    assert {record.levelno for record in refused} == {logging.DEBUG}
    listed = await eventually(system.list_proxies, lambda found: found == {})
    assert listed == {}
    left = await system.kubectl.arun("get", "px", "-o", "json")
    assert json.loads(left.stdout)["items"] == []
    # The fixture ends with a namespace to delete.
    await system.kubectl.acall("create", "namespace", namespace)


def wipe(directory: Path) -> None:
    """Remove everything that the Temporal server has written."""
    databases = list(directory.glob("temporal-*/temporal.db*"))
    assert databases
    for path in databases:
        path.unlink()


def secret(name: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "labels": {"crawl.example.com/cloud-init": "true"}},
        "data": {"user-data": base64.b64encode(b"#cloud-config\n").decode()},
    }
