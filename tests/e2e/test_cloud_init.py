"""Cloud-init from Secrets: what reaches the provider, what a rotation does, and who never gets to read it."""

import asyncio
import base64
import json
import logging
from collections.abc import Callable
from typing import Any

import pytest

from tests.e2e import cloud_init_box
from tests.e2e.system import System, condition

FIRST, SECOND, INLINE = "sentinel-first-5b1e", "sentinel-second-c0d4", "sentinel-inline-77aa"
LABEL = "crawl.example.com/cloud-init"


@pytest.fixture
def given(system: System, monkeypatch: pytest.MonkeyPatch) -> dict[str, str | None]:
    """Incarnation to user-data, as the provider got it."""
    entry = cloud_init_box.register(monkeypatch, system)
    system.write_providers(entry)
    return cloud_init_box.received[entry[cloud_init_box.TYPE]["stateDir"]]


async def put_secret(system: System, data: dict[str, str], *, labelled: bool = True) -> None:
    manifest = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "init", "labels": {LABEL: "true"} if labelled else {}},
        "data": {key: base64.b64encode(value.encode()).decode() for key, value in data.items()},
    }
    result = await asyncio.to_thread(system.kubectl.apply, manifest)
    assert result.returncode == 0, result.stderr


def from_secret(check: dict[str, object], **reference: str) -> dict[str, Any]:
    reference = {"name": "init", **reference}
    return {"mode": "Managed", "provider": "box", "healthCheck": check, "cloudInit": {"secretRef": reference}}


def incarnation_of(body: dict[str, Any]) -> str:
    found: str = body["status"].get("incarnation", "")
    return found


async def everything_written(system: System) -> dict[str, bytes]:
    """Return every history of the installation, and every object of its namespace but Secrets and specs."""
    client = (await system.workflow("px"))._client
    texts: dict[str, bytes] = {}
    async for execution in client.list_workflows(""):
        history = await client.get_workflow_handle(execution.id, run_id=execution.run_id).fetch_history()
        text = b"".join(event.SerializeToString() for event in history.events)
        texts[f"history of {execution.id} {execution.run_id}"] = text
    proxies = json.loads(await system.kubectl.acall("get", "px", "-o", "json"))["items"]
    for body in proxies:
        name = body["metadata"]["name"]
        kept = {key: value for key, value in body["metadata"]["annotations"].items() if "last-applied" not in key}
        texts[f"status of {name}"] = json.dumps([body["status"], kept]).encode()
    texts["events"] = (await system.kubectl.acall("get", "events", "-o", "json")).encode()
    return texts


@pytest.mark.timeout(240)
async def test_a_rotated_secret_replaces_the_instance_and_is_read_by_nobody_else(
    system: System, check: dict[str, object], given: dict[str, str | None], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    system.start_all()
    await put_secret(system, {"only-key": f"#cloud-config {FIRST}"})
    await system.apply("px", from_secret(check))
    inline = {"mode": "Managed", "provider": "box", "healthCheck": check, "cloudInit": {"inline": INLINE}}
    await system.apply("inline", inline)
    before = await system.wait_ready("px")
    await system.wait_ready("inline")
    assert given[incarnation_of(before)] == f"#cloud-config {FIRST}"

    await put_secret(system, {"only-key": f"#cloud-config {SECOND}"})
    after = await system.wait_for(
        "px",
        lambda seen: seen["status"]["phase"] == "Ready" and incarnation_of(seen) not in ("", incarnation_of(before)),
        within=60,
    )
    assert given[incarnation_of(after)] == f"#cloud-config {SECOND}"
    assert len(await asyncio.to_thread(system.processes_of, after["metadata"]["uid"])) == 1
    assert after["status"]["observedGeneration"] == 1
    assert sorted(text or "" for text in given.values()) == sorted(
        [INLINE, f"#cloud-config {FIRST}", f"#cloud-config {SECOND}"]
    )

    texts = await everything_written(system)
    assert len([name for name in texts if name.startswith("history of proxy/")]) >= 2
    texts["log"] = caplog.text.encode()
    for sentinel in (FIRST, SECOND, INLINE):
        encoded = base64.b64encode(f"#cloud-config {sentinel}".encode())
        found = [name for name, text in texts.items() if sentinel.encode() in text or encoded in text]
        assert found == []


@pytest.mark.timeout(180)
async def test_a_secret_is_read_once_it_has_the_label_and_the_key(
    system: System, check: dict[str, object], given: dict[str, str | None]
) -> None:
    system.start_all()
    await put_secret(system, {"a": FIRST, "b": SECOND}, labelled=False)
    await system.apply("px", from_secret(check))

    def blamed(words: str) -> Callable[[dict[str, Any]], bool]:
        def told(seen: dict[str, Any]) -> bool:
            provisioned = condition(seen, "Provisioned")
            return provisioned.get("reason") == "CloudInitError" and words in provisioned["message"]

        return told

    await system.wait_for("px", blamed(f'lacks the label {LABEL}="true"'))
    await system.kubectl.acall("label", "secret", "init", f"{LABEL}=true")
    await system.wait_for("px", blamed('has no key "user-data"'))
    assert given == {}
    await system.apply("px", from_secret(check, key="b"))
    ready = await system.wait_ready("px")
    assert given == {incarnation_of(ready): SECOND}


@pytest.mark.timeout(180)
async def test_a_secret_that_cannot_be_read_any_more_leaves_the_running_instance_alone(
    system: System, check: dict[str, object], given: dict[str, str | None]
) -> None:
    system.start_all()
    await put_secret(system, {"user-data": FIRST})
    await system.apply("px", from_secret(check))
    before = await system.wait_ready("px")
    await system.kubectl.acall("label", "secret", "init", f"{LABEL}-")
    # The label's loss is noticed, told, and no reason to lose a proxy that works.
    await system.apply("px", {**from_secret(check), "maxLeases": 2})
    seen = await system.wait_for("px", lambda body: body["status"].get("observedGeneration") == 2)
    assert incarnation_of(seen) == incarnation_of(before)
    assert len(await asyncio.to_thread(system.processes_of, seen["metadata"]["uid"])) == 1
    assert list(given.values()) == [FIRST]
