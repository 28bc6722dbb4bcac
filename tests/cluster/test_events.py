"""Kubernetes Events: on a real API server, and where they are not taken."""

import asyncio
import json
import logging
import time
from typing import Any

import pytest
from aiohttp import web

from cluster.connection import ClusterConnection
from cluster.events import EventWriter
from model.messages import ObjectEvent, ProxyReference
from tests.cluster.scripted_api import Handler, ScriptedApi, refusal
from tests.e2e.polling import eventually
from tests.support.kubectl import Kubectl, proxy

EXTERNAL = {"mode": "External", "endpoint": {"host": "127.0.0.1"}}
WARNING = ObjectEvent(warning=True, reason="QuotaExceeded", message="8 of 8 in use")
NORMAL = ObjectEvent(warning=False, reason="Running", message="running at 10.0.0.1")
REFERENCE = ProxyReference(namespace="ns", name="one", uid="u")


@pytest.fixture(autouse=True)
def _patience_on_a_busy_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cluster.events._TOGETHER_SECONDS", 20.0)


async def events_in(kubectl: Kubectl) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(await kubectl.acall("get", "events", "-o", "json"))["items"]
    return sorted(found, key=lambda event: str(event["reason"]))


async def made(kubectl: Kubectl, name: str) -> ProxyReference:
    result = await asyncio.to_thread(kubectl.apply, proxy(name, EXTERNAL))
    assert result.returncode == 0, result.stderr
    uid = (await asyncio.to_thread(kubectl.get, "proxy", name))["metadata"]["uid"]
    return ProxyReference(namespace=kubectl.namespace, name=name, uid=uid)


async def test_describe_shows_what_happened(connection: ClusterConnection, kubectl: Kubectl) -> None:
    reference = await made(kubectl, "one")
    await EventWriter(connection).write(reference, [NORMAL, WARNING], "run/1")
    text = await kubectl.acall("describe", "proxy", "one")
    shown = [line.split(maxsplit=3) for line in text.partition("Events:")[2].splitlines()]
    lines = {parts[1]: parts for parts in shown if len(parts) == 4}
    assert lines["Running"][0] == "Normal"
    assert lines["Running"][3].endswith("egress-proxies  running at 10.0.0.1")
    assert lines["QuotaExceeded"][0] == "Warning"
    assert lines["QuotaExceeded"][3].endswith("egress-proxies  8 of 8 in use")


async def test_another_try_doubles_nothing_and_another_occasion_is_told(
    connection: ClusterConnection, kubectl: Kubectl
) -> None:
    reference = await made(kubectl, "one")
    writer = EventWriter(connection)
    for occasion in ("run/1", "run/1", "run/2"):
        await writer.write(reference, [WARNING, NORMAL], occasion)
    found = await events_in(kubectl)
    assert [event["reason"] for event in found] == ["QuotaExceeded", "QuotaExceeded", "Running", "Running"]
    assert {event["count"] for event in found} == {1}
    assert {event["reportingComponent"] for event in found} == {"egress-proxies"}
    assert {event["involvedObject"]["uid"] for event in found} == {reference.uid}


async def test_a_long_name_and_a_hostile_message_are_taken(connection: ClusterConnection, kubectl: Kubectl) -> None:
    name = "a." * 118 + "b"
    reference = await made(kubectl, name)
    text = "password=S3cr3t-xyz " + "\u00e4\n\x00<p>" * 20_000
    await EventWriter(connection).write(reference, [ObjectEvent(warning=True, reason="R", message=text)], "run/1")
    (event,) = await events_in(kubectl)
    assert "S3cr3t" not in event["message"]
    assert len(event["message"].encode()) <= 1024
    assert event["involvedObject"]["name"] == name


async def test_a_namespace_that_terminates_takes_none_and_breaks_nothing(
    connection: ClusterConnection, kubectl: Kubectl, caplog: pytest.LogCaptureFixture
) -> None:
    await kubectl.acall("create", "configmap", "held")
    await kubectl.acall("patch", "configmap", "held", "--type=merge", "-p", '{"metadata":{"finalizers":["x.y/held"]}}')
    await kubectl.acall("delete", "namespace", kubectl.namespace, "--wait=false")
    reference = ProxyReference(namespace=kubectl.namespace, name="one", uid="u")
    caplog.set_level(logging.DEBUG, "cluster.events")

    async def refused() -> bool:
        await EventWriter(connection).write(reference, [WARNING], f"run/{time.monotonic()}")
        return "being terminated" in caplog.text

    try:
        await eventually(refused)
    finally:
        await kubectl.acall("patch", "configmap", "held", "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
    assert {record.levelno for record in caplog.records if record.name == "cluster.events"} == {logging.DEBUG}


async def hang(_request: web.Request) -> web.StreamResponse:
    await asyncio.sleep(60)
    return web.Response()


def refuse(status: int) -> Handler:
    async def handler(_request: web.Request) -> web.StreamResponse:
        return refusal(status)

    return handler


@pytest.mark.parametrize(
    ("handler", "level", "tries"),
    [
        (refuse(403), logging.DEBUG, 1),
        (refuse(404), logging.DEBUG, 1),
        (refuse(409), logging.DEBUG, 2),
        (refuse(429), logging.WARNING, 1),
        (refuse(500), logging.WARNING, 1),
        (hang, logging.WARNING, 1),
    ],
    ids=["forbidden", "gone", "there already", "too many", "broken", "silent"],
)
async def test_events_that_are_not_taken_are_logged_and_hold_up_nothing(
    scripted: ScriptedApi,
    to_scripted: ClusterConnection,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    handler: Handler,
    level: int,
    tries: int,
) -> None:
    if handler is hang:
        monkeypatch.setattr("cluster.events._TOGETHER_SECONDS", 1.0)
    scripted.on_list = handler
    caplog.set_level(logging.DEBUG, "cluster.events")
    began = time.monotonic()
    await EventWriter(to_scripted).write(REFERENCE, [WARNING, NORMAL], "run/1")
    assert time.monotonic() - began < 15
    assert {record.levelno for record in caplog.records if record.name == "cluster.events"} == {level}
    assert len(scripted.lists) == tries
