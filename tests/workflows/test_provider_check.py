"""Checks on a real Temporal server, published to a real API server."""

import asyncio
import json
import secrets
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from temporalio import workflow
from temporalio.client import Client, WorkflowExecutionStatus
from temporalio.worker import Replayer

from activities.provider_checks import CheckActivities, HealthPublishing
from app.schedules import provider_check_schedule
from app.settings import ProviderCheckSettings
from cluster.connection import ClusterConnection
from cluster.provider_health import ProviderHealthStore
from cluster.proxies import ProxyStore
from model import messages, names
from model.provider_health import FORBIDDEN, REACHABLE, TargetHealth
from model.proxy_state import ProxyState
from providers.registry import ProviderRegistry
from tests.e2e.polling import eventually
from tests.providers.scripted import ScriptedProvider
from tests.providers.swept import SweptProvider, registry_of, write_entries
from tests.support.kubectl import Kubectl, proxy
from tests.workflows.sweeping import RUNNER, Runs, ended, serving
from workflows.provider_check import ProviderCheck

GOOD = TargetHealth(name="host", address="h:1", ready=True, reason=REACHABLE, latency_millis=7)
REFUSED = TargetHealth(name="host", ready=False, reason=FORBIDDEN, message="credentials refused")


@workflow.defn(name="ProxyWorkflow", sandboxed=False)
class Listening:
    """Keeps what it is poked with."""

    def __init__(self) -> None:
        self.pokes: list[messages.Poke] = []

    @workflow.run
    async def run(self, _state: ProxyState) -> None:
        await workflow.wait_condition(lambda: False)

    @workflow.signal
    def changed(self, poke: messages.Poke) -> None:
        self.pokes.append(poke)

    @workflow.query
    def told(self) -> list[messages.Poke]:
        return self.pokes


class World:
    def __init__(self, client: Client, connection: ClusterConnection, kubectl: Kubectl) -> None:
        self.client, self.connection, self.kubectl = client, connection, kubectl
        self.health = ProviderHealthStore(connection, f"test-{secrets.token_hex(4)}")

    def name(self, word: str) -> str:
        return f"{word}-{secrets.token_hex(4)}"

    async def runs(self, timeout: float = 2.0, interval: float = 20.0) -> Runs:
        settings = ProviderCheckSettings(interval=timedelta(seconds=interval), timeout=timedelta(seconds=timeout))
        return await Runs.of(self.client, names.PROVIDER_CHECK_ID, provider_check_schedule(settings))

    def activities(self, registry: ProviderRegistry) -> list[Any]:
        store = ProxyStore(self.connection, self.kubectl.namespace)
        publishing = HealthPublishing(registry, self.health, store, self.client)
        return [
            CheckActivities(registry).check_provider,
            publishing.publish_provider_health,
            publishing.remove_unconfigured_health,
        ]

    async def condition(self, name: str) -> tuple[str, str]:
        [found] = (await self.health.status(name))["conditions"]
        return found["status"], found["reason"]


@pytest.fixture
async def world(temporal_client: Client, kubeconfig: Path, kubectl: Kubectl) -> AsyncIterator[World]:
    connection = await ClusterConnection.connect(kubeconfig)
    world = World(temporal_client, connection, kubectl)
    yield world
    await world.health.remove_others(set())
    await connection.close()


async def test_every_provider_gets_its_object_and_a_hung_one_holds_up_nobody(world: World, tmp_path: Path) -> None:
    good, bad, hung, mute, away = (world.name(word) for word in ("good", "bad", "hung", "mute", "away"))
    boxes: dict[str, ScriptedProvider] = {name: SweptProvider() for name in (good, bad, hung, away)}
    boxes[mute] = ScriptedProvider()
    for name, targets in ((good, [GOOD]), (bad, [GOOD, TargetHealth(name="b", ready=False, reason="PoolNotActive")])):
        box = boxes[name]
        assert isinstance(box, SweptProvider)
        box.targets = targets
    stuck = boxes[hung]
    assert isinstance(stuck, SweptProvider)
    stuck.check_gate.clear()
    registry = registry_of(tmp_path, boxes, ["", "", "", "nobody-serves-this"])
    runs = await world.runs()
    async with serving(world.client, registry, world.connection, world.activities(registry)):
        run = await runs.start()

        async def published() -> bool:
            return bool(await world.health.status(good))

        await eventually(published)
        assert await world.health.status(away) == {}, "the good one's answer did not wait for the others"
        report: dict[str, str] = await run.result()
        history = await run.fetch_history()
    assert report == {
        good: "Ready=True, targets 1/1",
        bad: "Ready=False, targets 1/2",
        hung: "Ready=False, targets 0/1 (Timeout: no verdict within 2s)",
        mute: "Ready=Unknown, targets 0/0",
        away: "Ready=False, targets 0/1 (NoWorker: no worker serves task queue nobody-serves-this)",
    }
    assert await world.condition(mute) == ("Unknown", "ChecksNotImplemented")
    assert await world.condition(bad) == ("False", "TargetsNotReady")
    await Replayer(workflows=[ProviderCheck], workflow_runner=RUNNER).replay_workflow(history)
    await registry.close()


async def test_what_is_not_configured_any_more_is_removed(world: World, tmp_path: Path) -> None:
    kept, gone = world.name("kept"), world.name("gone")
    registry = registry_of(tmp_path, {kept: SweptProvider(), gone: SweptProvider()})
    runs = await world.runs()
    async with serving(world.client, registry, world.connection, world.activities(registry)):
        await (await runs.start()).result()
        assert await world.health.status(gone)
        write_entries(tmp_path / "providers.yaml", [kept], [])
        report: dict[str, str] = await (await runs.start()).result()
    assert report["not configured any more"] == gone
    assert await world.health.status(gone) == {}
    assert await world.condition(kept) == ("Unknown", "NoTargets")
    await registry.close()


async def test_a_provider_that_turns_good_wakes_whom_it_refused(world: World, tmp_path: Path) -> None:
    name = world.name("cloud")
    box = SweptProvider()
    box.targets = [REFUSED]
    for proxy_name, reason in (("refused", "AccessDenied"), ("running", "Running")):
        body = proxy(proxy_name, {"mode": "Managed", "provider": name})
        assert (await asyncio.to_thread(world.kubectl.apply, body)).returncode == 0
        condition = {
            "type": "Provisioned",
            "status": "False",
            "reason": reason,
            "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
        patch = json.dumps({"status": {"phase": "Pending", "conditions": [condition]}})
        await world.kubectl.acall("patch", "px", proxy_name, "--subresource=status", "--type=merge", "-p", patch)
    registry = registry_of(tmp_path, {name: box})
    runs = await world.runs()
    async with serving(
        world.client, registry, world.connection, world.activities(registry), more_workflows=[Listening]
    ):
        assert (await (await runs.start()).result())[name] == "Ready=False, targets 0/1"
        box.targets = [GOOD]
        assert (await (await runs.start()).result())[name] == "Ready=True, targets 1/1, 1 proxies look again"
        workflow_id = names.proxy_workflow_id(world.kubectl.namespace, "refused")
        [poke] = await world.client.get_workflow_handle(workflow_id).query(Listening.told)
        assert (poke.name, poke.look) == ("refused", True)
        assert (await (await runs.start()).result())[name] == "Ready=True, targets 1/1", "only the turn wakes"
    await registry.close()


async def test_a_stuck_run_ends_before_the_second_next_one_is_due(world: World, tmp_path: Path) -> None:
    registry = registry_of(tmp_path, {world.name("box"): SweptProvider()})
    runs = await world.runs(interval=10)
    # Nobody serves the control queue: the run can do nothing at all.
    stuck = await runs.start()
    handle = world.client.get_schedule_handle(names.PROVIDER_CHECK_ID)
    await handle.trigger()
    assert await ended(stuck) is WorkflowExecutionStatus.TIMED_OUT
    description = await stuck.describe()
    assert description.close_time is not None
    assert description.close_time - description.start_time < timedelta(seconds=20)
    assert (await handle.describe()).info.num_actions_skipped_overlap == 1
    async with serving(world.client, registry, world.connection, world.activities(registry)):
        assert len(await (await runs.start()).result()) == 1
    await registry.close()
