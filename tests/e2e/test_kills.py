"""kill -9 of what runs in peace: one process per Proxy, and no lease lost. ``test_kill_matrix.py`` has the rest."""

import asyncio
import subprocess
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from app.dev.temporal import TemporalServer
from tests.e2e.polling import eventually
from tests.e2e.system import System, condition
from tests.probing.servers import Origin
from tests.support.kubectl import Kubectl


async def take_lease(system: System, target: str = "") -> str:
    async with system.crawler() as crawler, crawler.post("/v1/leases", json={"target": target}) as answer:
        body = await answer.json()
        assert answer.status == 201, body
        return str(body["leaseID"])


async def assert_lease_lives(system: System, name: str, lease_id: str) -> None:
    """The lease still holds its slot and can be reported on."""
    listed = await eventually(system.list_proxies, lambda found: name in found)
    assert listed[name]["activeLeases"] == 1
    report = {"result": "ok"}
    async with system.crawler() as crawler, crawler.post(f"/v1/leases/{lease_id}/report", json=report) as answer:
        assert answer.status == 204


async def ended(process: "subprocess.Popen[bytes]") -> int:
    return await asyncio.to_thread(process.wait, 60)


def managed(check: dict[str, object]) -> dict[str, Any]:
    return {"mode": "Managed", "provider": "box", "healthCheck": check}


@pytest.mark.fault
@pytest.mark.timeout(180)
async def test_a_worker_killed_while_probing_is_followed_by_one_that_goes_on(
    system: System, check: dict[str, object], site: Origin
) -> None:
    system.start_watcher()
    system.start_api()
    worker = system.start_worker_process()
    await system.apply("px", managed(check))
    body = await system.wait_ready("px")
    lease = await take_lease(system)
    await eventually(_requests(site), lambda count: count >= 3)

    worker.kill()
    await ended(worker)
    seen = len(site.requests)
    system.start_worker_process()

    await eventually(_requests(site), lambda count: count >= seen + 3, within=90)
    after = await system.get("px")
    assert after["status"]["phase"] == "Ready"
    assert after["status"]["incarnation"] == body["status"]["incarnation"]
    assert len(system.processes_of(body["metadata"]["uid"])) == 1
    await assert_lease_lives(system, "px", lease)


def _requests(site: Origin) -> Callable[[], Awaitable[int]]:
    async def count() -> int:
        return len(site.requests)

    return count


@pytest.mark.fault
@pytest.mark.timeout(180)
async def test_a_killed_temporal_server_comes_back_with_every_lease(
    kubectl: Kubectl,
    own_temporal: Callable[..., Awaitable[TemporalServer]],
    tmp_path: Path,
    check: dict[str, object],
) -> None:
    server = await own_temporal()
    system = System(kubectl, server.address, "default", tmp_path)
    try:
        system.start_all()
        await system.apply("px", managed(check))
        body = await system.wait_ready("px")
        lease = await take_lease(system)

        await server.kill()
        await server.start()

        await assert_lease_lives(system, "px", lease)
        assert len(system.processes_of(body["metadata"]["uid"])) == 1
        await system.apply("second", managed(check))
        second = await system.wait_ready("second", within=60)
        assert len(system.processes_of(second["metadata"]["uid"])) == 1
    finally:
        await system.close()


@pytest.mark.fault
async def test_a_killed_proxy_process_is_replaced(system: System, check: dict[str, object]) -> None:
    system.start_all()
    await system.apply("px", managed(check))
    before = await system.wait_ready("px")
    (process,) = system.processes_of(before["metadata"]["uid"])

    process.kill()

    def is_another(seen: dict[str, Any]) -> bool:
        status = seen["status"]
        return bool(status.get("incarnation") != before["status"]["incarnation"] and status["phase"] == "Ready")

    after = await system.wait_for("px", is_another, within=60)
    (replacement,) = system.processes_of(after["metadata"]["uid"])
    assert replacement.pid != process.pid
    assert after["status"]["ip"] == before["status"]["ip"]
    listed = await eventually(system.list_proxies, lambda found: found["px"]["healthy"])
    assert listed["px"]["ip"] == before["status"]["ip"]


@pytest.mark.fault
async def test_a_proxy_whose_process_was_killed_is_deleted_all_the_same(
    system: System, check: dict[str, object]
) -> None:
    system.start_all()
    await system.apply("px", managed(check))
    body = await system.wait_ready("px")
    await system.stop("worker")
    for process in system.processes_of(body["metadata"]["uid"]):
        process.kill()
    system.start_worker()

    await system.kubectl.acall("delete", "px", "px", "--timeout=40s")

    assert await system.get("px") == {}
    assert system.processes_of(body["metadata"]["uid"]) == []


@pytest.mark.fault
async def test_drift_finds_a_dead_process_before_three_probes_do(system: System, check: dict[str, object]) -> None:
    system.drift_check_interval = timedelta(seconds=2)
    system.start_all()
    slow = {**check, "intervalSeconds": 600}
    await system.apply("px", managed(slow))
    before = await system.wait_ready("px")

    for process in system.processes_of(before["metadata"]["uid"]):
        process.kill()

    after = await system.wait_for(
        "px",
        lambda seen: seen["status"].get("incarnation", "") not in ("", before["status"]["incarnation"]),
        within=40,
    )
    assert condition(after, "Provisioned")["reason"] in ("Running", "Provisioning")
