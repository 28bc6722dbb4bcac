"""What was decided for a state of things that is no more when it happens."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from model.names import instance_name
from providers.local.records import RecordStore
from tests.e2e.gates import Boundary, Gates
from tests.e2e.polling import eventually
from tests.e2e.system import System


@pytest.fixture
def gates(tmp_path: Path) -> Gates:
    return Gates(tmp_path / "gates")


def managed(check: dict[str, object], port: int = 3128) -> dict[str, Any]:
    return {"mode": "Managed", "provider": "box", "healthCheck": check, "port": port}


async def uid_of(system: System, name: str) -> str:
    return str((await system.get(name))["metadata"]["uid"])


def is_ready_on(port: int, incarnation: str) -> Any:
    """Return what tells that a Proxy runs on another instance than that, made for a port."""

    def look(body: dict[str, Any]) -> bool:
        status = body.get("status", {})
        is_another = status.get("incarnation", "") not in ("", incarnation)
        is_current = status.get("observedGeneration") == body["metadata"]["generation"]
        return bool(is_another and is_current and status.get("phase") == "Ready" and body["spec"]["port"] == port)

    return look


@pytest.mark.fault
@pytest.mark.timeout(180)
async def test_an_edit_between_a_crashed_create_and_its_retry_replaces_what_the_crash_left(
    system: System, check: dict[str, object], gates: Gates
) -> None:
    system.start_watcher()
    system.start_api()
    records = RecordStore(system.directory / "providers" / "box")
    worker = system.start_worker_process(gates=gates.directory)
    gates.set("px", Boundary("create_instance", 1, "after"))
    await system.apply("px", managed(check))
    await gates.wait("px")
    worker.kill()
    await asyncio.to_thread(worker.wait, 30)
    uid = await uid_of(system, "px")
    left = records.read(instance_name(uid))
    assert left is not None
    assert left.port == 3128
    assert left.spec_hash.startswith("v1-")

    await system.apply("px", managed(check, port=3129))
    # The worker that comes next stops before it removes anything, so that what it adopted can be looked at.
    again = Gates(system.directory / "more-gates")
    again.set("px", Boundary("remove_instance", 1, "before"))
    system.start_worker_process(gates=again.directory)
    await again.wait("px")
    adopted = await system.get("px")
    assert adopted["status"]["incarnation"] == left.incarnation
    marked = records.read(instance_name(uid))
    assert marked is not None
    assert marked.spec_hash == left.spec_hash
    assert len(system.processes_of(uid)) == 1
    again.open()

    await system.wait_for("px", is_ready_on(3129, left.incarnation), within=60)
    made = records.read(instance_name(uid))
    assert made is not None
    assert (made.port, len(system.processes_of(uid))) == (3129, 1)
    assert made.spec_hash != left.spec_hash
    after = await system.get("px")
    assert after["metadata"]["annotations"]["crawl.example.com/spec-hash"] == made.spec_hash


@pytest.mark.fault
@pytest.mark.timeout(180)
async def test_a_late_delete_spares_the_instance_that_came_after(
    system: System, check: dict[str, object], gates: Gates
) -> None:
    system.start_watcher()
    system.start_worker_process(gates=gates.directory)
    await system.apply("px", managed(check))
    before = await system.wait_ready("px", within=60)
    uid = before["metadata"]["uid"]

    # Its first attempt falls silent before it deletes anything; the second one does the work.
    gates.set("px", Boundary("remove_instance", 1, "before", late=True))
    await system.apply("px", managed(check, port=3129))
    await gates.wait("px")
    replaced = await system.wait_for("px", is_ready_on(3129, before["status"]["incarnation"]), within=90)
    (process,) = system.processes_of(uid)
    gates.open()

    async def late() -> str:
        return gates.late("px")

    assert await eventually(late) == "returned: True"
    await asyncio.sleep(1)
    assert system.processes_of(uid) == [process]
    assert (await system.get("px"))["status"] == replaced["status"]


@pytest.mark.fault
@pytest.mark.timeout(180)
async def test_an_object_recreated_while_its_former_instance_is_being_removed_gets_one_of_its_own(
    system: System, check: dict[str, object], gates: Gates
) -> None:
    system.start_watcher()
    system.start_api()
    system.start_worker_process(gates=gates.directory)
    await system.apply("px", managed(check))
    before = await system.wait_ready("px", within=60)

    gates.set("px", Boundary("remove_instance", 1, "before"))
    await system.kubectl.acall("delete", "px", "px", "--wait=false")
    await gates.wait("px")
    # A human who is tired of waiting takes the finalizer off and makes the object anew.
    await system.kubectl.acall("patch", "px", "px", "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
    await system.wait_for("px", lambda seen: seen == {})
    await system.apply("px", managed(check))
    gates.open()

    after = await system.wait_ready("px", within=90)
    assert after["metadata"]["uid"] != before["metadata"]["uid"]
    assert system.processes_of(before["metadata"]["uid"]) == []
    assert len(system.processes_of(after["metadata"]["uid"])) == 1
    listed = await eventually(system.list_proxies, lambda found: found.get("px", {}).get("healthy", False))
    assert listed["px"]["ip"] == after["status"]["ip"]


@pytest.mark.fault
@pytest.mark.timeout(180)
async def test_an_object_deleted_and_recreated_while_its_create_is_slow_leaves_one_instance(
    system: System, check: dict[str, object], gates: Gates
) -> None:
    system.start_watcher()
    system.start_api()
    system.start_worker_process(gates=gates.directory)
    gates.set("px", Boundary("create_instance", 1, "after"))
    await system.apply("px", managed(check))
    await gates.wait("px")
    former = await uid_of(system, "px")
    assert len(system.processes_of(former)) == 1

    deleting = asyncio.create_task(system.kubectl.acall("delete", "px", "px", "--timeout=90s", timeout=100))
    body = await system.wait_for("px", lambda seen: "deletionTimestamp" in seen["metadata"])
    # A create that runs is never overtaken.
    assert body["metadata"]["finalizers"] == ["crawl.example.com/finalizer"]
    gates.open()
    await deleting
    assert system.processes_of(former) == []
    await system.apply("px", managed(check))

    after = await system.wait_ready("px", within=60)
    assert after["metadata"]["uid"] != former
    assert len(system.processes_of(after["metadata"]["uid"])) == 1
