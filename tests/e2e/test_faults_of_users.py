"""Input that cannot work, and what a user reads about it."""

import asyncio
import base64
import json
import os
import sys
from typing import Any

import pytest

from tests.e2e.polling import eventually
from tests.e2e.system import System, condition


async def wait_for_reason(system: System, name: str, reason: str, within: float = 30.0) -> dict[str, Any]:
    body = await system.wait_for(name, lambda seen: condition(seen, "Provisioned").get("reason") == reason, within)
    return condition(body, "Provisioned")


async def test_an_unknown_provider_is_named_and_used_once_it_appears_in_the_config(
    system: System, check: dict[str, object]
) -> None:
    system.start_all()
    await system.apply("px", {"mode": "Managed", "provider": "later", "healthCheck": check})

    provisioned = await wait_for_reason(system, "px", "ProviderNotConfigured")
    assert provisioned["status"] == "False"
    assert '"later"' in provisioned["message"]

    system.write_providers(system.local_provider("box"), system.local_provider("later"))
    await system.wait_ready("px", within=30)


async def test_a_proxy_of_an_unknown_provider_is_deleted_at_once(system: System) -> None:
    system.start_all()
    await system.apply("px", {"mode": "Managed", "provider": "nowhere"})
    await wait_for_reason(system, "px", "ProviderNotConfigured")

    await system.kubectl.acall("delete", "px", "px", "--timeout=20s")

    assert await system.get("px") == {}


async def test_a_config_that_cannot_be_read_keeps_the_last_good_one(system: System, check: dict[str, object]) -> None:
    system.start_all()
    await system.apply("one", {"mode": "Managed", "provider": "box", "healthCheck": check})
    await system.wait_ready("one")
    system.providers_file.write_text("providers: [{name: box, type: local, local: {softwre: squid}}]")

    await system.apply("two", {"mode": "Managed", "provider": "box", "healthCheck": check})
    await system.wait_ready("two")


async def test_a_permanent_failure_latches_until_the_spec_changes(system: System, check: dict[str, object]) -> None:
    system.start_all()
    spec = {"mode": "Managed", "provider": "box", "healthCheck": check}
    await system.apply("px", {**spec, "placement": {"region": "mars"}})

    provisioned = await wait_for_reason(system, "px", "PermanentError")
    body = await system.get("px")
    assert body["status"]["phase"] == "Failed"
    assert "spec.placement.region" in provisioned["message"]
    length = await system.history_length("px")

    await system.apply("px", spec)
    await system.wait_ready("px")
    assert await system.history_length("px") > length


async def test_retry_by_hand_lifts_a_latch(system: System, check: dict[str, object]) -> None:
    system.start_all()
    spec = {"mode": "Managed", "provider": "box", "healthCheck": check, "placement": {"zone": "z"}}
    await system.apply("px", spec)
    await wait_for_reason(system, "px", "PermanentError")
    handle = await system.workflow("px")
    before = await system.history_length("px")

    await handle.signal("retry", {"any": "input"})
    await eventually(lambda: system.history_length("px"), lambda length: length > before + 10)
    await wait_for_reason(system, "px", "PermanentError")

    await system.kubectl.acall("annotate", "px", "px", "crawl.example.com/retry=1")
    await system.wait_for("px", lambda seen: seen["status"].get("handled", {}).get("retry") == "1")
    await system.kubectl.acall("delete", "px", "px", "--timeout=20s")


async def test_cloud_init_needs_a_labelled_secret_and_is_read_when_the_label_comes(system: System) -> None:
    system.start_all()
    manifest = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "init"},
        "data": {"user-data": base64.b64encode(b"#cloud-config\n").decode()},
    }
    created = await asyncio.to_thread(system.kubectl.apply, manifest)
    assert created.returncode == 0, created.stderr
    await system.apply("px", {"mode": "Managed", "provider": "box", "cloudInit": {"secretRef": {"name": "init"}}})
    provisioned = await wait_for_reason(system, "px", "CloudInitError")
    assert 'lacks the label crawl.example.com/cloud-init="true"' in provisioned["message"]

    await system.kubectl.acall("label", "secret", "init", "crawl.example.com/cloud-init=true")

    # The Secret is read now, and the local provider says what it thinks of cloud-init.
    provisioned = await wait_for_reason(system, "px", "PermanentError")
    assert "spec.cloudInit" in provisioned["message"]


@pytest.mark.timeout(180)
async def test_nothing_secret_enters_a_history_or_a_status(system: System, caplog: pytest.LogCaptureFixture) -> None:
    system.start_all()
    inline, secret = "sentinel-inline-7d1f", "sentinel-secret-90ab"
    manifest = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "init", "labels": {"crawl.example.com/cloud-init": "true"}},
        "data": {"user-data": base64.b64encode(f"#cloud-config {secret}".encode()).decode()},
    }
    assert (await asyncio.to_thread(system.kubectl.apply, manifest)).returncode == 0
    box = {"mode": "Managed", "provider": "box"}
    await system.apply("inline", {**box, "cloudInit": {"inline": f"#cloud-config {inline}"}})
    await system.apply("secret", {**box, "cloudInit": {"secretRef": {"name": "init"}}})
    await system.kubectl.acall("annotate", "px", "inline", f"example.com/note={inline}")
    async with system.crawler() as crawler:
        for name in ("inline", "secret"):
            await wait_for_reason(system, name, "PermanentError")
            async with crawler.post("/v1/leases", json={"target": name}) as answer:
                assert answer.status == 409

    client = (await system.workflow("inline"))._client
    seen = 0
    async for execution in client.list_workflows(""):
        handle = client.get_workflow_handle(execution.id, run_id=execution.run_id)
        history = await handle.fetch_history()
        text = b"".join(event.SerializeToString() for event in history.events)
        seen += len(history.events)
        for sentinel in (inline, secret, "sentinel-discovery-token", base64.b64encode(secret.encode()).decode()):
            assert sentinel.encode() not in text, f"{sentinel} in the history of {execution.id}"
    assert seen > 50
    for name in ("inline", "secret"):
        status = json.dumps((await system.get(name))["status"])
        assert inline not in status
        assert secret not in status
    assert inline not in caplog.text
    assert secret not in caplog.text


@pytest.mark.parametrize(
    ("data", "status", "error"),
    [
        (b'{"target": ', 400, "invalid_body"),
        (b'{"ttlSeconds": 999999}', 400, "invalid_ttl"),
        (json.dumps({"target": "x" * 70 * 1024}).encode(), 413, "body_too_large"),
    ],
)
async def test_malformed_requests_get_the_envelope(system: System, data: bytes, status: int, error: str) -> None:
    system.start_worker()
    system.start_api()
    await eventually(lambda: _answers(system))
    async with system.crawler() as crawler, crawler.post("/v1/leases", data=data) as answer:
        assert answer.status == status
        body = await answer.json()
    assert body["error"] == error
    assert body["message"]


async def _answers(system: System) -> bool:
    try:
        async with system.crawler() as crawler, crawler.get("/v1/proxies") as answer:
            return answer.status == 200
    except OSError:
        return False


async def test_a_second_installation_in_the_same_temporal_namespace_is_refused_with_one_line(system: System) -> None:
    system.start_worker()
    system.start_api()
    await eventually(lambda: _answers(system))

    system.write_providers(system.local_provider("box", taskQueue="box"))
    for command in (["watcher"], ["worker", "--providers-config", str(system.providers_file)], ["api"]):
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "app.cli", *command),
            *("--installation", "somebody-else"),
            *("--kubeconfig", str(system.kubectl.kubeconfig)),
            *("--health-probe-bind-address", "0"),
            env={
                **os.environ,
                "TEMPORAL_ADDRESS": system.temporal_address,
                "TEMPORAL_NAMESPACE": system.temporal_namespace,
                "DISCOVERY_TOKEN": "t",
                "EGRESS_PROXIES_DISCOVERY_ADDR": "127.0.0.1:0",
            },
            stderr=asyncio.subprocess.PIPE,
        )
        _, output = await asyncio.wait_for(process.communicate(), 60)
        lines = output.decode().strip().splitlines()
        assert process.returncode != 0
        assert len(lines) == 1, lines
        assert system.installation in lines[0]
        assert "somebody-else" in lines[0]


@pytest.mark.timeout(240)
async def test_a_queue_that_nobody_serves_is_named(system: System, check: dict[str, object]) -> None:
    system.write_providers(
        system.local_provider("box", probeTaskQueue="far-probes"), system.local_provider("far", taskQueue="far-box")
    )
    system.task_queues = ("egress-control", "egress-leases", "egress-provider", "egress-probes")
    system.start_all()
    await system.apply("unprovided", {"mode": "Managed", "provider": "far", "healthCheck": check})
    await system.apply("unprobed", {"mode": "Managed", "provider": "box", "healthCheck": check})

    provisioned = await wait_for_reason(system, "unprovided", "NoWorker", within=100)
    assert "far-box" in provisioned["message"]
    body = await system.wait_for(
        "unprobed", lambda seen: condition(seen, "Healthy").get("reason") == "NoWorker", within=60
    )
    assert "far-probes" in condition(body, "Healthy")["message"]
    assert condition(body, "Provisioned")["status"] == "True"
    assert not (await system.list_proxies())["unprobed"]["healthy"]

    await system.stop("worker")
    system.task_queues = ()
    system.start_worker()
    await system.wait_ready("unprobed", within=60)
    await system.wait_ready("unprovided", within=60)
