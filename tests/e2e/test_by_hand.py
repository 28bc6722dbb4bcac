"""What a human asks for beside the spec: a pause, another instance."""

import asyncio
import json
from typing import Any

import pytest

from tests.e2e.polling import eventually
from tests.e2e.system import System, condition


def managed(check: dict[str, object], **more: Any) -> dict[str, Any]:
    return {"mode": "Managed", "provider": "box", "healthCheck": check, **more}


async def pause(system: System, name: str, *, paused: bool) -> None:
    patch = json.dumps({"spec": {"paused": paused}})
    await system.kubectl.acall("patch", "px", name, "--type=merge", "-p", patch)


async def is_handed_out(system: System) -> bool:
    async with system.crawler() as crawler, crawler.post("/v1/leases", json={"ttlSeconds": 60}) as answer:
        if answer.status != 201:
            return False
        lease = await answer.json()
        async with crawler.delete(f"/v1/leases/{lease['leaseID']}") as given_back:
            assert given_back.status == 204
        return True


@pytest.mark.timeout(180)
async def test_a_paused_proxy_keeps_its_instance_is_not_handed_out_and_is_deleted_all_the_same(
    system: System, check: dict[str, object]
) -> None:
    system.start_all()
    for name in ("frozen", "thawed"):
        await system.apply(name, managed(check))
    before = {name: await system.wait_ready(name) for name in ("frozen", "thawed")}
    pids = {name: system.processes_of(body["metadata"]["uid"]) for name, body in before.items()}
    await eventually(lambda: is_handed_out(system))

    for name in before:
        await pause(system, name, paused=True)
        await system.wait_for(name, lambda seen: condition(seen, "Provisioned").get("reason") == "Paused")
    assert not await is_handed_out(system)
    # An edit of a paused proxy waits; a process that ends stays ended.
    await system.kubectl.acall("patch", "px", "thawed", "--type=merge", "-p", '{"spec":{"port":3129}}')
    await asyncio.sleep(3)
    assert {name: system.processes_of(body["metadata"]["uid"]) for name, body in before.items()} == pids

    await system.kubectl.acall("delete", "px", "frozen", "--timeout=40s")
    assert system.processes_of(before["frozen"]["metadata"]["uid"]) == []
    await pause(system, "thawed", paused=False)
    first = before["thawed"]["status"]["incarnation"]
    await system.wait_for(
        "thawed", lambda seen: seen["status"]["phase"] == "Ready" and seen["status"]["incarnation"] not in ("", first)
    )
    assert len(system.processes_of(before["thawed"]["metadata"]["uid"])) == 1
    await eventually(lambda: is_handed_out(system))


@pytest.mark.timeout(180)
async def test_a_rotation_waits_for_the_leases_that_run_and_hands_out_nothing_meanwhile(
    system: System, check: dict[str, object]
) -> None:
    system.start_all()
    await system.apply("px", managed(check, drainSeconds=60))
    before = await system.wait_ready("px")
    first, uid = before["status"]["incarnation"], before["metadata"]["uid"]
    (process,) = system.processes_of(uid)
    async with system.crawler() as crawler:

        async def lease() -> dict[str, Any]:
            async with crawler.post("/v1/leases", json={"ttlSeconds": 120}) as answer:
                body: dict[str, Any] = await answer.json()
                return body if answer.status == 201 else {}

        held = await eventually(lease)
        await system.kubectl.acall("annotate", "px", "px", "crawl.example.com/rotate=monday")
        await system.wait_for("px", lambda seen: "drains" in condition(seen, "Provisioned").get("message", ""))
        await asyncio.sleep(2)
        assert system.processes_of(uid) == [process]
        assert await lease() == {}
        async with crawler.post(f"/v1/leases/{held['leaseID']}/report", json={"result": "ok"}) as answer:
            assert answer.status == 204
        async with crawler.delete(f"/v1/leases/{held['leaseID']}") as answer:
            assert answer.status == 204

    after = await system.wait_for(
        "px",
        lambda seen: seen["status"]["phase"] == "Ready" and seen["status"]["incarnation"] not in ("", first),
        within=40,
    )
    assert after["status"]["handled"]["rotate"] == "monday"
    (replacement,) = system.processes_of(uid)
    assert replacement.pid != process.pid
    await eventually(lambda: is_handed_out(system))


@pytest.mark.timeout(120)
async def test_a_rotation_by_signal_replaces_once(system: System, check: dict[str, object]) -> None:
    system.start_all()
    await system.apply("px", managed(check))
    before = await system.wait_ready("px")

    await (await system.workflow("px")).signal("rotate", "with any input")

    def replaced(seen: dict[str, Any]) -> bool:
        status = seen["status"]
        return status["phase"] == "Ready" and status["incarnation"] not in ("", before["status"]["incarnation"])

    after = await system.wait_for("px", replaced, within=40)
    await asyncio.sleep(2)
    assert (await system.get("px"))["status"]["incarnation"] == after["status"]["incarnation"]
    assert len(system.processes_of(before["metadata"]["uid"])) == 1
