"""What a human asks for beside the spec: a pause, another instance, with kubectl and the `temporal` CLI."""

import asyncio
import json
from datetime import timedelta
from typing import Any

import pytest
from temporalio.client import WorkflowExecutionStatus

from app.dev import binaries
from model.names import proxy_workflow_id
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


async def temporal(system: System, *arguments: str) -> tuple[int, str]:
    """Run the CLI as a human does; return its exit code and all that it printed."""
    command = (str(binaries.temporal()), *arguments, "--disable-config-file", "--disable-config-env")
    at = ("--address", system.temporal_address, "--namespace", system.temporal_namespace)
    process = await asyncio.create_subprocess_exec(
        *command, *at, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    async with asyncio.timeout(60):
        output, _ = await process.communicate()
    return process.returncode or 0, output.decode()


def of(system: System, name: str) -> tuple[str, str]:
    return "--workflow-id", proxy_workflow_id(system.kubectl.namespace, name)


async def signal(system: System, name: str, word: str, *more: str) -> None:
    code, output = await temporal(system, "workflow", "signal", *of(system, name), "--name", word, *more)
    assert code == 0, output


async def replaced(system: System, before: dict[str, Any]) -> dict[str, Any]:
    """Wait until another incarnation is Ready, and return the object."""
    first = before["status"]["incarnation"]

    def wanted(seen: dict[str, Any]) -> bool:
        status = seen["status"]
        return status["phase"] == "Ready" and status["incarnation"] not in ("", first)

    return await system.wait_for(before["metadata"]["name"], wanted, within=40)


@pytest.mark.timeout(240)
async def test_the_signal_rotate_replaces_once_with_any_input_or_none(system: System, check: dict[str, object]) -> None:
    system.start_all()
    await system.apply("px", managed(check))
    seen = await system.wait_ready("px")
    for more in ([], ["--input", '{"any": ["input"]}'], ["--input", "1", "--input", '"two"']):
        await signal(system, "px", "rotate", *more)
        seen = await replaced(system, seen)
    # A name that means nothing does nothing.
    await signal(system, "px", "rotat")
    await asyncio.sleep(2)
    assert (await system.get("px"))["status"]["incarnation"] == seen["status"]["incarnation"]
    assert len(system.processes_of(seen["metadata"]["uid"])) == 1

    code, output = await temporal(system, "workflow", "signal", *of(system, "no-such"), "--name", "rotate")
    assert code != 0
    assert "not found" in output


@pytest.mark.timeout(180)
@pytest.mark.parametrize("by", ["signal", "signal with input", "annotation"])
async def test_retry_lifts_what_waits_and_a_permanent_failure(
    system: System, check: dict[str, object], by: str
) -> None:
    system.write_providers(system.local_provider("box", maxInstances=1))
    system.start_all()
    await system.apply("first", managed(check))
    await system.wait_ready("first")
    await system.apply("second", managed(check))
    await system.wait_for("second", lambda seen: condition(seen, "Provisioned").get("reason") == "QuotaExceeded")
    await system.kubectl.acall("delete", "px", "first", "--timeout=40s")
    await asyncio.sleep(2)
    assert (await system.get("second"))["status"]["phase"] == "Pending", "it waits for minutes"

    if by == "annotation":
        await system.kubectl.acall("annotate", "px", "second", "crawl.example.com/retry=now")
    else:
        await signal(system, "second", "retry", *(["--input", "[null]"] if by == "signal with input" else []))
    await system.wait_ready("second", within=20)


@pytest.mark.timeout(180)
async def test_the_list_of_workflows_says_which_are_stuck(system: System, check: dict[str, object]) -> None:
    system.start_worker()
    system.start_watcher()
    # All of them rest before a new Temporal namespace has the attributes in use.
    await system.apply("well", managed(check))
    await system.apply("latched", managed(check, placement={"zone": "nowhere"}))
    await system.apply("missing", {**managed(check), "provider": "nowhere"})
    await system.wait_ready("well")

    async def found(query: str) -> set[str]:
        code, output = await temporal(system, "workflow", "list", "--query", query, "--output", "json")
        if code:
            # What Temporal does not know yet cannot be searched by.
            return set()
        return {each["execution"]["workflowId"].rpartition("/")[2] for each in json.loads(output or "[]")}

    stuck = "ExecutionStatus = 'Running' AND EgressProxyPhase != 'Ready'"
    await eventually(lambda: found(stuck), lambda names: names == {"latched", "missing"}, within=90)
    for query, names in {
        "EgressProxyPhase = 'Failed'": {"latched"},
        "EgressProxyReason = 'ProviderNotConfigured'": {"missing"},
        "EgressProxyProvider = 'box' AND EgressProxyHealthy = 'True'": {"well"},
    }.items():
        await eventually(lambda query=query: found(query), lambda seen, names=names: seen == names)  # type: ignore[misc]


@pytest.mark.timeout(180)
async def test_a_workflow_that_was_terminated_comes_back_to_the_same_instance(
    system: System, check: dict[str, object]
) -> None:
    system.relist_interval = timedelta(seconds=5)
    system.start_all()
    await system.apply("px", managed(check))
    before = await system.wait_ready("px")
    first = (await (await system.workflow("px")).describe()).run_id
    code, output = await temporal(system, "workflow", "terminate", *of(system, "px"), "--reason", "by hand")
    assert code == 0, output

    async def another_run() -> bool:
        execution = await (await system.workflow("px")).describe()
        return execution.run_id != first and execution.status is WorkflowExecutionStatus.RUNNING

    await eventually(another_run)
    await system.wait_ready("px")
    await signal(system, "px", "retry")
    await asyncio.sleep(2)
    after = await system.wait_ready("px")
    assert after["status"]["incarnation"] == before["status"]["incarnation"]
    assert len(system.processes_of(before["metadata"]["uid"])) == 1


@pytest.mark.timeout(180)
async def test_a_paused_drift_check_stays_paused_and_sees_again_when_it_goes_on(
    system: System, check: dict[str, object]
) -> None:
    system.drift_check_interval = timedelta(seconds=2)
    system.start_all()
    # No probe tells of the end of the process in this time.
    await system.apply("px", managed({**check, "intervalSeconds": 3600}))
    before = await system.wait_ready("px")
    at = ("schedule", "toggle", "--schedule-id", "drift-check", "--reason", "maintenance")
    code, output = await temporal(system, *at, "--pause")
    assert code == 0, output
    # A run that was under way ends, and a worker that starts anew leaves the schedule paused.
    await asyncio.sleep(3)
    await system.stop("worker")
    system.start_worker()
    (process,) = system.processes_of(before["metadata"]["uid"])
    process.kill()
    await asyncio.sleep(6)
    code, output = await temporal(system, "schedule", "describe", "--schedule-id", "drift-check")
    assert code == 0, output
    assert "maintenance" in output
    assert (await system.get("px"))["status"]["incarnation"] == before["status"]["incarnation"]

    code, output = await temporal(system, *at, "--unpause")
    assert code == 0, output
    await replaced(system, before)
