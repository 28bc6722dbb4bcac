"""Orderly restarts, and a human's hand on the workflows."""

import asyncio
import os
import signal
import sys
import time
from typing import Any

import pytest

from tests.e2e.polling import eventually
from tests.e2e.system import System
from tests.probing.servers import Origin


def managed(check: dict[str, object]) -> dict[str, Any]:
    return {"mode": "Managed", "provider": "box", "healthCheck": check}


async def test_a_stopped_worker_hands_its_watches_over_without_a_trace_in_the_history(
    system: System, check: dict[str, object], site: Origin
) -> None:
    system.start_all()
    await system.apply("px", managed(check))
    before = await system.wait_ready("px")
    await system.wait_listed("px")
    await eventually(lambda: _probes(site), lambda count: count >= 2)
    length = await system.history_length("px")

    await system.stop("worker")
    seen = await _probes(site)
    system.start_worker()

    # Well before the heartbeat timeout of 30 s, after which a killed worker's watch is taken over.
    await eventually(lambda: _probes(site), lambda count: count >= seen + 2, within=12)
    after = await system.get("px")
    assert after["status"] == before["status"]
    assert await system.history_length("px") == length


async def _probes(site: Origin) -> int:
    return len(site.requests)


async def test_a_terminated_broker_knows_the_fleet_again_in_seconds(system: System, check: dict[str, object]) -> None:
    system.start_all()
    await system.apply("px", managed(check))
    await system.wait_ready("px")
    await eventually(system.list_proxies, lambda found: "px" in found and found["px"]["healthy"])
    handle = (await system.workflow("px"))._client.get_workflow_handle("lease-broker")
    await handle.terminate()

    async def lease_status() -> int:
        async with system.crawler() as crawler, crawler.post("/v1/leases", json={}) as answer:
            return answer.status

    await eventually(lease_status, lambda status: status == 201, within=20)
    # What the proxy's own workflow says later is still taken.
    await system.kubectl.acall("delete", "px", "px", "--timeout=20s")
    await eventually(system.list_proxies, lambda found: found == {})


@pytest.mark.parametrize("part", ["worker", "watcher", "api"])
async def test_sigterm_ends_a_busy_process_within_25_seconds(
    system: System, check: dict[str, object], part: str, site: Origin
) -> None:
    system.write_providers(system.local_provider("box", taskQueue="box"))
    arguments = {
        "worker": ["--providers-config", str(system.providers_file)],
        "watcher": [],
        "api": ["--discovery-addr", f"127.0.0.1:{system.api_port}"],
    }
    for other, start in (
        ("worker", system.start_worker),
        ("watcher", system.start_watcher),
        ("api", system.start_api),
    ):
        if other != part:
            start()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "app.cli", part, *arguments[part]),
        *("--installation", system.installation, "--proxy-namespace", system.kubectl.namespace),
        *("--kubeconfig", str(system.kubectl.kubeconfig), "--health-probe-bind-address", "0"),
        env={
            **os.environ,
            "TEMPORAL_ADDRESS": system.temporal_address,
            "TEMPORAL_NAMESPACE": system.temporal_namespace,
            "DISCOVERY_TOKEN": "sentinel-discovery-token",
        },
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        await system.apply("px", managed(check))
        await system.wait_ready("px")
        await eventually(system.list_proxies, lambda found: "px" in found)
        started = time.monotonic()
        process.send_signal(signal.SIGTERM)
        _, output = await asyncio.wait_for(process.communicate(), 30)
        assert process.returncode == 0
        assert time.monotonic() - started < 25
        assert b"Traceback" not in output, output.decode()
        assert b"sentinel-discovery-token" not in output
        for line in output.decode().splitlines():
            assert line.startswith("{"), line
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
