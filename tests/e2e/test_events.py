"""What ``kubectl describe`` tells about the life of a Proxy."""

import json

import pytest

from tests.e2e.polling import eventually
from tests.e2e.system import System


@pytest.fixture(autouse=True)
def _patience_on_a_busy_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cluster.events._TOGETHER_SECONDS", 20.0)


async def test_describe_tells_a_proxys_life_each_step_once(system: System, check: dict[str, object]) -> None:
    system.start_worker()
    system.start_watcher()
    await system.apply("one", {"mode": "Managed", "provider": "box", "healthCheck": check})
    await system.wait_ready("one")

    async def reasons() -> list[str]:
        found = json.loads(await system.kubectl.acall("get", "events", "-o", "json"))["items"]
        return sorted(event["reason"] for event in found if event["involvedObject"]["name"] == "one")

    await eventually(reasons, lambda found: found == ["Creating", "Healthy", "Running"])
    text = await system.kubectl.acall("describe", "px", "one")
    assert "egress-proxies  making an instance" in text
    await system.kubectl.acall("delete", "px", "one")
    assert await reasons() == ["Creating", "Deleting", "Healthy", "Running"]
