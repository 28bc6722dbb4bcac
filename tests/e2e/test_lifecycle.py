"""Changes of the object, missed events, and the quiet of a proxy that nothing happens to."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest

from tests.e2e.polling import eventually
from tests.e2e.system import System, condition
from tests.probing.servers import Origin, ScriptedServer, relay


def managed(check: dict[str, object], **more: Any) -> dict[str, Any]:
    return {"mode": "Managed", "provider": "box", "healthCheck": check, **more}


async def test_a_changed_spec_replaces_the_instance_and_never_runs_two(
    system: System, check: dict[str, object]
) -> None:
    system.start_all()
    await system.apply("px", managed(check, port=3128))
    before = await system.wait_ready("px")
    uid = before["metadata"]["uid"]

    await system.apply("px", managed(check, port=3129))
    most = 0

    async def look() -> dict[str, Any]:
        nonlocal most
        most = max(most, len(await asyncio.to_thread(system.processes_of, uid)))
        return await system.get("px")

    def replaced(seen: dict[str, Any]) -> bool:
        status = seen["status"]
        return status.get("incarnation", "") not in ("", before["status"]["incarnation"]) and status["phase"] == "Ready"

    after = await eventually(look, replaced)
    assert most == 1
    assert after["status"]["observedGeneration"] == 2
    assert after["status"]["ip"] == before["status"]["ip"]
    annotations = [body["metadata"]["annotations"]["crawl.example.com/spec-hash"] for body in (before, after)]
    assert annotations[0] != annotations[1]
    listed = await eventually(system.list_proxies, lambda found: found["px"]["healthy"])
    assert listed["px"]["port"] == 3129


async def test_a_health_check_edit_keeps_the_instance(system: System, check: dict[str, object], site: Origin) -> None:
    system.start_all()
    await system.apply("px", managed(check))
    before = await system.wait_ready("px")

    await system.apply("px", managed({**check, "expectedStatusCodes": [299], "failureThreshold": 1}))
    # The site answers 200 to everybody, so an unexpected status proves nothing against the proxy.
    await system.wait_for("px", lambda seen: seen["status"]["observedGeneration"] == 2)
    site.answer = site.answer.replace(b"200 OK", b"299 Fine")

    after = await system.wait_for("px", lambda seen: seen["status"]["phase"] == "Ready")
    assert after["status"]["incarnation"] == before["status"]["incarnation"]


async def test_an_external_proxy_deleted_while_the_watcher_was_down_leaves_the_lease_table(
    system: System, check: dict[str, object]
) -> None:
    elsewhere = ScriptedServer(relay)
    system.start_all()
    endpoint = {"host": "127.0.0.1", "port": elsewhere.port}
    await system.apply("px", {"mode": "External", "endpoint": endpoint, "healthCheck": check})
    await system.wait_ready("px")
    await system.stop("watcher")
    await system.kubectl.acall("delete", "px", "px")
    assert "px" in await system.list_proxies()

    system.start_watcher()

    await eventually(system.list_proxies, lambda found: found == {})
    elsewhere.close()


async def test_an_external_endpoint_that_dies_is_not_handed_out_and_comes_back(
    system: System, check: dict[str, object]
) -> None:
    elsewhere = ScriptedServer(relay)
    system.start_all()
    quick = {**check, "failureThreshold": 1}
    endpoint = {"host": "127.0.0.1", "port": elsewhere.port}
    await system.apply("px", {"mode": "External", "endpoint": endpoint, "healthCheck": quick})
    await system.wait_ready("px")
    elsewhere.close()

    body = await system.wait_for("px", lambda seen: seen["status"]["phase"] == "Unhealthy")
    assert condition(body, "Healthy")["reason"] == "ConnectRefused"
    await eventually(system.list_proxies, lambda found: not found["px"]["healthy"])
    async with system.crawler() as crawler, crawler.post("/v1/leases", json={}) as answer:
        assert answer.status == 409
        assert (await answer.json())["unhealthy"] == 1

    again = ScriptedServer(relay)
    endpoint = {"host": "127.0.0.1", "port": again.port}
    await system.apply("px", {"mode": "External", "endpoint": endpoint, "healthCheck": quick})
    await system.wait_ready("px")
    again.close()


async def test_a_terminated_workflow_is_started_again_and_finds_its_instance(
    system: System, check: dict[str, object]
) -> None:
    system.relist_interval = timedelta(seconds=3)
    system.start_all()
    await system.apply("px", managed(check))
    before = await system.wait_ready("px")
    handle = await system.workflow("px")
    first_run = (await handle.describe()).run_id
    await handle.terminate()

    async def run_id() -> str:
        return str((await handle.describe()).run_id)

    await eventually(run_id, lambda found: found != first_run)
    after = await system.wait_ready("px")
    assert after["status"]["incarnation"] == before["status"]["incarnation"]
    assert len(system.processes_of(before["metadata"]["uid"])) == 1


async def test_an_object_recreated_under_the_same_name_gets_an_instance_of_its_own(
    system: System, check: dict[str, object]
) -> None:
    system.start_all()
    await system.apply("px", managed(check))
    before = await system.wait_ready("px")
    await system.stop("watcher")
    # A finalizer taken off by hand: the object goes, its instance stays behind.
    await system.kubectl.acall("patch", "px", "px", "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
    await system.kubectl.acall("delete", "px", "px")
    await system.apply("px", managed(check))
    system.start_watcher()

    after = await system.wait_ready("px")

    assert after["metadata"]["uid"] != before["metadata"]["uid"]
    assert len(system.processes_of(after["metadata"]["uid"])) == 1
    assert system.processes_of(before["metadata"]["uid"]) == []


async def test_skip_cleanup_releases_a_deletion_that_cannot_succeed(system: System, check: dict[str, object]) -> None:
    system.start_all()
    await system.apply("px", managed(check))
    body = await system.wait_ready("px")
    system.write_providers(system.local_provider("other"))
    await system.apply("another", {"mode": "Managed", "provider": "other", "healthCheck": check})
    await system.wait_ready("another")
    await system.kubectl.acall("delete", "px", "px", "--wait=false")
    body = await system.wait_for("px", lambda seen: '"box"' in condition(seen, "Provisioned").get("message", ""))
    assert body["status"]["phase"] == "Deleting"

    await system.kubectl.acall("annotate", "px", "px", "crawl.example.com/skip-cleanup=true")

    await system.wait_for("px", lambda seen: seen == {})
    assert len(system.processes_of(body["metadata"]["uid"])) == 1


@pytest.mark.timeout(240)
async def test_an_idle_healthy_proxy_adds_no_history(system: System, check: dict[str, object], site: Origin) -> None:
    system.drift_check_interval = timedelta(seconds=15)
    system.relist_interval = timedelta(seconds=15)
    system.start_all()
    await system.apply("px", managed(check))
    await system.wait_ready("px")
    drift_checks = _runs(system, "DriftCheck")
    await eventually(drift_checks, lambda count: count >= 1)
    await system.wait_listed("px")
    before = await system.history_length("px")
    probes, checks = len(site.requests), await drift_checks()
    version = (await system.get("px"))["metadata"]["resourceVersion"]

    async def enough() -> bool:
        return len(site.requests) >= probes + 100 and await drift_checks() >= checks + 5

    await eventually(enough, within=150)

    assert await system.history_length("px") == before
    assert (await system.get("px"))["metadata"]["resourceVersion"] == version


def _runs(system: System, workflow_type: str) -> Callable[[], Awaitable[int]]:
    async def count() -> int:
        client = (await system.workflow("px"))._client
        return (await client.count_workflows(f"WorkflowType='{workflow_type}' AND ExecutionStatus='Completed'")).count

    return count
