"""The steps of the demo, from ``kubectl apply`` to a finalizer's release."""

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import yaml

from app.dev.demo_parts import Answer, Crawler, DemoFailedError, Kubectl
from app.dev.local_providers import PROXY_PY, SQUID, state_directories
from app.dev.origin import Origin
from app.dev.ports import LOOPBACK
from app.dev.processes import ChildProcess
from app.dev.report import progress, say, step
from app.dev.stack import RunningStack
from model.names import GROUP, VERSION
from providers.local import process
from providers.local.records import InstanceRecord, RecordStore

EXTERNAL = "external"
_LISTED_SECONDS = 20.0
_POLL_SECONDS = 0.1


@dataclass(frozen=True, kw_only=True)
class Scene:
    """Everything that the story plays with.

    Attributes:
        directory: State folder of the demo.
        providers: Names of the providers that Managed proxies are made with.
        external: A proxy that the system does not run, and its port.
    """

    directory: Path
    stack: RunningStack
    origin: Origin
    providers: tuple[str, ...]
    external: ChildProcess
    external_port: int


async def tell(scene: Scene) -> None:
    """Show the main job, step by step.

    Raises:
        DemoFailedError: Something did not happen.
        aiohttp.ClientError: A server could not be reached.
        TimeoutError: One did not answer in time.
    """
    kubectl, crawler = Kubectl(scene.stack), Crawler(scene.stack.api_url, scene.origin.authority)
    names = [*scene.providers, EXTERNAL]
    with step(f"1. applying {len(names)} Proxies: Managed by {' and '.join(scene.providers)}, and one External"):
        progress(f"$ export KUBECONFIG={scene.stack.kubeconfig}")
        await kubectl("apply", "-f", str(await asyncio.to_thread(_write_manifest, scene)))
    with step("2. waiting until each is Ready: its process runs, and a probe came back through it"):
        await _wait_until_ready(kubectl)
        await kubectl("get", "px", "-o", "wide")
        records = await asyncio.to_thread(_instances, scene.stack.providers_config)
        _show_where_to_look(scene, records)
    with step("3. a crawler asks which proxies there are"):
        await _wait_until_listed(crawler, len(names))
    await _lease(scene, crawler)
    with step("7. deleting the Proxies; the finalizer holds each Managed one until its process is gone"):
        await kubectl("get", "px", "-o", "custom-columns=NAME:.metadata.name,FINALIZERS:.metadata.finalizers")
        await kubectl("delete", "px", "--all")
        await kubectl("get", "px")
        _check_processes(scene, records)


async def _lease(scene: Scene, crawler: Crawler) -> None:
    target = scene.origin.host
    # A selector that fits one proxy, so that its cooldown leaves nothing else to lease.
    wanted = {"selector": {"software": scene.providers[0]}, "target": target}
    with step(f"4. leasing a proxy for {target} and fetching a page through it"):
        lease = _expect(await crawler.ask("POST", "/v1/leases", wanted), 201)
        proxy_url = f"http://{lease['proxy']['ip']}:{lease['proxy']['port']}"
        progress(f"GET {scene.origin.url} by CONNECT through {proxy_url}, TLS end to end")
        page = await crawler.fetch(scene.origin.url, proxy_url)
        progress(f"-> {page.splitlines()[0]}")
    with step("5. the site throttled us: a report, after which the proxy rests for this target (15 minutes)"):
        report = {"result": "rate_limited", "target": target}
        _expect(await crawler.ask("POST", f"/v1/leases/{lease['leaseID']}/report", report), 204)
        refusal = _expect(await crawler.ask("POST", "/v1/leases", wanted), 409)
        if (refusal.get("considered"), refusal.get("inCooldown")) != (1, 1):
            raise DemoFailedError(f"one proxy should have been considered and in cooldown, not {refusal}")
    with step("6. giving the lease back"):
        _expect(await crawler.ask("DELETE", f"/v1/leases/{lease['leaseID']}"), 204)


def _write_manifest(scene: Scene) -> Path:
    """Write the Proxies; the probe's target is the demo's own, because the default one is on the internet."""
    check = {"probeURL": scene.origin.probe_url, "intervalSeconds": 2}
    endpoint = {"host": LOOPBACK, "port": scene.external_port}
    specs: dict[str, dict[str, Any]] = {
        name: {"mode": "Managed", "provider": name, "attributes": {"software": name}, "healthCheck": dict(check)}
        for name in scene.providers
    }
    specs[EXTERNAL] = {
        "mode": "External",
        "endpoint": endpoint,
        "attributes": {"software": EXTERNAL},
        "healthCheck": dict(check),
    }
    path = scene.directory / "proxies.yaml"
    path.write_text(yaml.safe_dump_all([_manifest(name, spec) for name, spec in specs.items()], sort_keys=False))
    return path


def _manifest(name: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": "Proxy",
        "metadata": {"name": name, "namespace": "default"},
        "spec": dict(spec),
    }


async def _wait_until_ready(kubectl: Kubectl) -> None:
    try:
        await kubectl("wait", "--for=condition=Ready", "px", "--all", "--timeout=60s")
    except DemoFailedError:
        conditions = ",".join(
            f"{type_.upper()}:.status.conditions[?(@.type=='{type_}')].message" for type_ in ("Provisioned", "Healthy")
        )
        await kubectl("get", "px", "-o", f"custom-columns=NAME:.metadata.name,{conditions}")
        raise


async def _wait_until_listed(crawler: Crawler, wanted: int) -> None:
    """The broker learns of a proxy at the time its status is written, so a moment later at most it is listed."""
    path = "/v1/proxies?healthy=true"
    deadline = time.monotonic() + _LISTED_SECONDS
    while True:
        try:
            answer = await crawler.ask("GET", path, quiet=True)
            if answer.status == 200 and answer.body["count"] == wanted:
                break
            problem = f"{answer.status} {answer.body}"
        except aiohttp.ClientConnectionError as error:
            problem = str(error)
        if time.monotonic() > deadline:
            raise DemoFailedError(f"GET {path} did not list {wanted} proxies within {_LISTED_SECONDS:.0f} s: {problem}")
        await asyncio.sleep(_POLL_SECONDS)
    await crawler.ask("GET", path)


def _instances(providers_config: Path) -> list[InstanceRecord]:
    return [record for folder in state_directories(providers_config) for record in RecordStore(folder).all()]


def _show_where_to_look(scene: Scene, records: list[InstanceRecord]) -> None:
    for record in records:
        if record.process is not None:
            progress(f"{record.software} runs with pid {record.process.pid} on {record.address}:{record.port}")
    progress(f"proxy.py of somebody else runs with pid {scene.external.pid} on {LOOPBACK}:{scene.external_port}")
    progress(f"each Proxy's history: workflow proxy/default/<name> in {scene.stack.temporal_ui}")


def _check_processes(scene: Scene, records: list[InstanceRecord]) -> None:
    identities = [record.process for record in records if record.process is not None]
    if len(identities) != len(scene.providers):
        raise DemoFailedError(f"{len(scene.providers)} processes were to run, and {len(identities)} did")
    left = [identity.pid for identity in identities if process.is_alive(identity)]
    if left:
        raise DemoFailedError(f"processes of deleted Proxies still run: {left}")
    progress(f"gone: {', '.join(f'pid {identity.pid}' for identity in identities)}")
    if not scene.external.running:
        raise DemoFailedError("the External proxy's process ended, which is not ours to end")
    progress(f"left alone, because it is not ours: pid {scene.external.pid} of the External proxy")


def _expect(answer: Answer, status: int) -> dict[str, Any]:
    if answer.status != status:
        raise DemoFailedError(f"the lease API answered {answer.status} instead of {status}: {answer.body}")
    return answer.body


def providers_of(providers_config: Path) -> tuple[str, ...]:
    """Return the names of the stack's providers, squid first, and say so where squid is missing."""
    document = yaml.safe_load(providers_config.read_text())
    present = {entry["name"] for entry in document["providers"]}
    if SQUID not in present:
        say("squid is missing on this machine, so the demo shows proxy.py alone")
    return tuple(name for name in (SQUID, PROXY_PY) if name in present)
