"""Gauges of the providers' checks, from the objects as the API server has them."""

import asyncio
import secrets
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from app.metrics_registry import TolerantRegistry
from app.provider_metrics import ProviderHealthCollector, ProviderHealthWatch
from cluster.connection import ClusterConnection
from cluster.provider_health import ProviderHealthStore
from cluster.watching import WatchSettings
from model.provider_check_messages import CheckAnswer, CheckOutcome
from model.provider_health import REACHABLE, UNREACHABLE, TargetHealth
from model.provider_health_status import status_of
from tests.e2e.polling import eventually

GOOD = TargetHealth(name="a", ready=True, reason=REACHABLE, latency_millis=250)
BAD = TargetHealth(name="b", ready=False, reason=UNREACHABLE)
NAMES = ("target_up", "check_duration_seconds", "check_timestamp_seconds")


class World:
    def __init__(self, connection: ClusterConnection) -> None:
        self.installation = f"test-{secrets.token_hex(4)}"
        self.health = ProviderHealthStore(connection, self.installation)
        self.provider = f"p-{secrets.token_hex(4)}"
        collector = ProviderHealthCollector()
        self.registry = TolerantRegistry()
        self.registry.register(collector)
        self.watch = ProviderHealthWatch(connection, self.installation, WatchSettings(relist=2.0), collector)

    async def write(self, *targets: TargetHealth) -> None:
        answer = CheckAnswer(implemented=True, targets=list(targets))
        outcome = CheckOutcome(provider=self.provider, checked_at=1_780_000_000, answer=answer)
        await self.health.write(self.provider, status_of("kvm", outcome, {}))

    async def samples(self) -> dict[str, list[float | None]]:
        return {
            target: [
                self.registry.get_sample_value(
                    f"proxy_operator_provider_{name}", {"provider": self.provider, "target": target}
                )
                for name in NAMES
            ]
            for target in ("a", "b")
        }


@pytest.fixture
async def world(kubeconfig: Path) -> AsyncIterator[World]:
    connection = await ClusterConnection.connect(kubeconfig)
    world = World(connection)
    watching = asyncio.create_task(world.watch.run())
    yield world
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)
    await world.health.remove_others(set())
    await connection.close()


async def test_the_gauges_follow_the_objects_and_vanish_with_them(world: World) -> None:
    nothing: list[float | None] = [None, None, None]
    await world.write(GOOD, BAD)
    both = {"a": [1.0, 0.25, 1_780_000_000.0], "b": [0.0, 0.0, 1_780_000_000.0]}
    assert await eventually(world.samples, lambda seen: seen == both)
    await world.write(GOOD)
    await eventually(world.samples, lambda seen: seen["b"] == nothing)
    await asyncio.sleep(2.5)
    assert (await world.samples())["a"] == both["a"], "a relist keeps what is there"
    await world.health.remove_others(set())
    await eventually(world.samples, lambda seen: seen["a"] == nothing)


async def test_other_installations_are_not_counted(world: World) -> None:
    stranger = World(world.watch._watch._connection)
    await stranger.write(GOOD)
    await world.write(GOOD)
    await eventually(world.samples, lambda seen: seen["a"][0] == 1.0)
    label = {"provider": stranger.provider, "target": "a"}
    assert world.registry.get_sample_value("proxy_operator_provider_target_up", label) is None
    await stranger.health.remove_others(set())
