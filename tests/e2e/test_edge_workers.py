"""A provider that is served by a worker of its own, which goes away."""

import asyncio
import itertools
from pathlib import Path
from typing import Any

import pytest
import yaml

from model import names
from tests.e2e.polling import eventually
from tests.e2e.system import System, condition

EDGE, EDGE_PROBES = "edge", "edge-probes"
CENTRAL = (names.QUEUE_CONTROL, names.QUEUE_LEASES, names.QUEUE_PROVIDER, names.QUEUE_PROBES)


def managed(check: dict[str, object], port: int = 3128) -> dict[str, Any]:
    return {"mode": "Managed", "provider": "home", "healthCheck": check, "port": port}


def write_edge_provider(system: System) -> Path:
    """Write the provider into the system's file and into one for the edge worker; return the latter."""
    home = system.local_provider("home", taskQueue=EDGE, probeTaskQueue=EDGE_PROBES)
    system.write_providers(system.local_provider("box"), home)
    edge_file = system.directory / "edge-providers.yaml"
    edge_file.write_text(yaml.safe_dump({"providers": [home]}))
    return edge_file


def start_edge(system: System, providers_file: Path) -> Any:
    return system.start_worker_process(queues=(EDGE, EDGE_PROBES), providers_file=providers_file)


async def until_not_configured(system: System, spec: dict[str, Any]) -> None:
    """Wait until the central worker has taken in that the provider is no more: a new Proxy is told so at once."""
    names = itertools.count()

    async def is_refused() -> bool:
        name = f"asks-{next(names)}"
        await system.apply(name, spec)
        await system.wait_for(name, lambda seen: bool(condition(seen, "Provisioned")))
        await asyncio.sleep(0.5)
        body = await system.get(name)
        return bool(condition(body, "Provisioned").get("reason") == "ProviderNotConfigured")

    await eventually(is_refused)


@pytest.mark.fault
@pytest.mark.timeout(300)
async def test_an_edge_worker_gone_while_watching_replacing_and_deleting_is_named_and_all_goes_on_with_the_next(
    system: System, check: dict[str, object]
) -> None:
    edge_file = write_edge_provider(system)
    system.task_queues = CENTRAL
    system.start_all()
    edge = start_edge(system, edge_file)
    before = {}
    for name in ("watched", "replaced", "deleted"):
        await system.apply(name, managed(check))
    for name in ("watched", "replaced", "deleted"):
        before[name] = await system.wait_ready(name, within=60)
    pids = {name: [one.pid for one in system.processes_of(body["metadata"]["uid"])] for name, body in before.items()}

    edge.kill()
    await asyncio.to_thread(edge.wait, 30)
    await system.apply("replaced", managed(check, port=3129))
    await system.kubectl.acall("delete", "px", "deleted", "--wait=false")

    # 60 s without a worker; a watch first misses its heartbeats for 30 s.
    for name in ("replaced", "deleted"):
        body = await system.wait_for(
            name, lambda seen: condition(seen, "Provisioned").get("reason") == "NoWorker", within=100
        )
        assert EDGE in condition(body, "Provisioned")["message"]
        assert body["metadata"]["finalizers"] == ["crawl.example.com/finalizer"]
    body = await system.wait_for(
        "watched", lambda seen: condition(seen, "Healthy").get("reason") == "NoWorker", within=100
    )
    assert condition(body, "Healthy")["status"] == "Unknown"
    assert EDGE_PROBES in condition(body, "Healthy")["message"]
    assert condition(body, "Ready")["status"] == "False"
    await eventually(system.list_proxies, lambda found: not any(view["healthy"] for view in found.values()))
    async with system.crawler() as crawler, crawler.post("/v1/leases", json={}) as answer:
        assert answer.status == 409
    for name, body in before.items():
        assert [one.pid for one in system.processes_of(body["metadata"]["uid"])] == pids[name]

    start_edge(system, edge_file)

    await system.wait_for("deleted", lambda seen: seen == {}, within=60)
    assert system.processes_of(before["deleted"]["metadata"]["uid"]) == []
    watched = await system.wait_ready("watched", within=60)
    assert watched["status"]["incarnation"] == before["watched"]["status"]["incarnation"]
    first = before["replaced"]["status"]["incarnation"]
    await system.wait_for(
        "replaced",
        lambda seen: seen["status"]["phase"] == "Ready" and seen["status"]["incarnation"] not in ("", first),
        within=60,
    )
    for name in ("watched", "replaced"):
        assert len(system.processes_of(before[name]["metadata"]["uid"])) == 1
    listed = await eventually(system.list_proxies, lambda found: all(view["healthy"] for view in found.values()))
    assert sorted(listed) == ["replaced", "watched"]


@pytest.mark.timeout(180)
async def test_a_provider_taken_out_of_the_central_config_is_still_deleted_by_the_worker_that_has_it(
    system: System, check: dict[str, object]
) -> None:
    edge_file = write_edge_provider(system)
    system.task_queues = CENTRAL
    system.start_all()
    edge = start_edge(system, edge_file)
    await system.apply("px", managed(check))
    body = await system.wait_ready("px", within=60)
    edge.kill()
    await asyncio.to_thread(edge.wait, 30)
    await system.kubectl.acall("delete", "px", "px", "--wait=false")
    await system.wait_for("px", lambda seen: seen["status"]["phase"] == "Deleting")

    system.write_providers(system.local_provider("box"))
    await until_not_configured(system, managed(check))
    start_edge(system, edge_file)

    await system.wait_for("px", lambda seen: seen == {}, within=100)
    assert system.processes_of(body["metadata"]["uid"]) == []


@pytest.mark.timeout(180)
async def test_a_deletion_waits_for_its_provider_to_come_back_into_the_config(
    system: System, check: dict[str, object]
) -> None:
    entry = system.local_provider("home")
    system.write_providers(system.local_provider("box"), entry)
    system.start_all()
    await system.apply("px", managed(check))
    body = await system.wait_ready("px", within=60)
    system.write_providers(system.local_provider("box"))
    await until_not_configured(system, managed(check))
    await system.kubectl.acall("delete", "px", "px", "--wait=false")
    await system.wait_for("px", lambda seen: '"home"' in condition(seen, "Provisioned").get("message", ""))
    assert len(system.processes_of(body["metadata"]["uid"])) == 1

    system.write_providers(system.local_provider("box"), entry)

    await system.wait_for("px", lambda seen: seen == {}, within=60)
    assert system.processes_of(body["metadata"]["uid"]) == []
