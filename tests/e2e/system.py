"""The product running against real servers, in this process or in processes of its own."""

import asyncio
import contextlib
import json
import os
import re
import secrets
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import aiohttp
import psutil
import yaml
from temporalio.client import Client, WorkflowHandle
from temporalio.common import SearchAttributeKey

from api.settings import ApiSettings
from app.lease_api import run_lease_api
from app.settings import (
    ClusterSettings,
    LeaseApiSettings,
    ProviderCheckSettings,
    ServingSettings,
    WatcherSettings,
    WorkerSettings,
)
from app.watcher import run_watcher
from app.worker import run_worker
from model import search_attributes
from model.names import instance_name, proxy_workflow_id
from model.status import READY
from providers.local.provider import stop_all_processes
from tests.e2e.polling import eventually
from tests.support.kubectl import Kubectl, proxy
from tests.support.listening import listen

TOKEN = "sentinel-discovery-token"
_INSTANCE = re.compile(r"proxy-[a-z2-7]{16}(?![a-z2-7])")
Start = Callable[[asyncio.Event], Awaitable[None]]


def loopback_network() -> str:
    """Return a /28 of the loopback range that no other test uses."""
    second, third, fourth = (secrets.randbelow(200) + 20, secrets.randbelow(256), secrets.randbelow(15) * 16)
    return f"127.{second}.{third}.{fourth}/28"


def free_port() -> int:
    """Return a port that was free a moment ago."""
    with listen("127.0.0.1") as sock:
        port: int = sock.getsockname()[1]
        return port


@dataclass
class System:
    """One installation: a Kubernetes namespace, a Temporal namespace and a folder of its own."""

    kubectl: Kubectl
    temporal_address: str
    temporal_namespace: str
    directory: Path
    drift_check_interval: timedelta = timedelta(minutes=10)
    provider_check_interval: timedelta = timedelta(minutes=1)
    relist_interval: timedelta = timedelta(minutes=10)
    lease_cooldown: timedelta = timedelta(minutes=15)
    task_queues: tuple[str, ...] = ()
    api_port: int = field(default_factory=free_port)
    _parts: dict[str, tuple[asyncio.Event, asyncio.Task[None]]] = field(default_factory=dict)
    _processes: list["subprocess.Popen[bytes]"] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.installation = f"test-{secrets.token_hex(6)}"
        self.providers_file = self.directory / "providers.yaml"
        self.write_providers(self.local_provider("box"))

    # ------------------------------------------------------------------ providers

    def local_provider(self, name: str, software: str = "proxy.py", **more: Any) -> dict[str, Any]:
        """Return a ``local`` entry with addresses of its own."""
        local = {
            "software": software,
            "addresses": [loopback_network()],
            "stateDir": str(self.directory / "providers" / name),
        }
        return {"name": name, "type": "local", "local": local, **more}

    def write_providers(self, *entries: Mapping[str, Any]) -> None:
        """Replace the providers file, as an editor or a ConfigMap does."""
        fresh = self.providers_file.with_suffix(".new")
        fresh.write_text(yaml.safe_dump({"providers": [dict(entry) for entry in entries]}))
        os.replace(fresh, self.providers_file)

    def processes_of(self, uid: str) -> list[psutil.Process]:
        """Return every living proxy process of a Proxy, by the folder that its command line names."""
        return self.processes_by_instance().get(instance_name(uid), [])

    def processes_by_instance(self) -> dict[str, list[psutil.Process]]:
        """Return every living proxy process of this system by the name of its instance."""
        found: dict[str, list[psutil.Process]] = {}
        for process in psutil.process_iter(["status", "cmdline"]):
            if process.info["status"] == psutil.STATUS_ZOMBIE:
                continue
            for part in process.info["cmdline"] or ():
                name = _INSTANCE.search(part)
                if name is not None and str(self.directory) in part:
                    found.setdefault(name[0], []).append(process)
                    break
        return found

    # ------------------------------------------------------------------ parts

    @property
    def cluster(self) -> ClusterSettings:
        return ClusterSettings(
            kubeconfig=self.kubectl.kubeconfig,
            proxy_namespace=self.kubectl.namespace,
            installation=self.installation,
            temporal_address=self.temporal_address,
            temporal_namespace=self.temporal_namespace,
        )

    @property
    def worker_settings(self) -> WorkerSettings:
        return WorkerSettings(
            cluster=self.cluster,
            providers_config=self.providers_file,
            task_queues=self.task_queues,
            drift_check_interval=self.drift_check_interval,
            provider_check=ProviderCheckSettings(interval=self.provider_check_interval),
            require_local_task_queue=False,
        )

    def start_worker(self, interceptors: Sequence[Any] = ()) -> None:
        settings = self.worker_settings
        self._start("worker", lambda stop: run_worker(settings, stop, interceptors))

    def start_watcher(self) -> None:
        settings = WatcherSettings(
            cluster=self.cluster, serving=ServingSettings(), relist_interval=self.relist_interval
        )
        self._start("watcher", lambda stop: run_watcher(settings, stop))

    def start_api(self) -> None:
        api = ApiSettings(
            discovery_addr=f"127.0.0.1:{self.api_port}", token=TOKEN.encode(), lease_cooldown=self.lease_cooldown
        )
        settings = LeaseApiSettings(cluster=self.cluster, api=api)
        self._start("api", lambda stop: run_lease_api(settings, stop))

    def start_all(self) -> None:
        self.start_worker()
        self.start_watcher()
        self.start_api()

    def _start(self, name: str, start: Start) -> None:
        stop = asyncio.Event()
        self._parts[name] = (stop, asyncio.create_task(_run(start, stop), name=name))

    async def stop(self, name: str) -> None:
        """Stop a part as SIGTERM does."""
        stop, task = self._parts.pop(name)
        stop.set()
        async with asyncio.timeout(30):
            await task

    def start_worker_process(
        self, *, gates: Path | None = None, queues: Sequence[str] = (), providers_file: Path | None = None
    ) -> "subprocess.Popen[bytes]":
        """Start a worker in a process of its own, which can be killed.

        Args:
            gates: Folder of the gates at which it stops.
            queues: Task queues to serve; none means all.
            providers_file: The system's own when None.
        """
        told = {
            "kubeconfig": str(self.kubectl.kubeconfig),
            "namespace": self.kubectl.namespace,
            "installation": self.installation,
            "providers": str(providers_file or self.providers_file),
            "drift_seconds": self.drift_check_interval.total_seconds(),
            "queues": list(queues),
            "gates": str(gates or ""),
        }
        return self._spawn("worker", "-m", "tests.e2e.worker_process", json.dumps(told))

    def start_watcher_process(self) -> "subprocess.Popen[bytes]":
        """Start a watcher in a process of its own, which can be killed."""
        arguments = ("watcher", "--kubeconfig", self.kubectl.kubeconfig, "--proxy-namespace", self.kubectl.namespace)
        more = ("--installation", self.installation, "--health-probe-bind-address", "0")
        relist = ("--relist-interval", f"{self.relist_interval.total_seconds():.0f}s")
        return self._spawn("watcher", "-m", "app.cli", *map(str, (*arguments, *more, *relist)))

    def _spawn(self, name: str, *arguments: str) -> "subprocess.Popen[bytes]":
        environment = {
            **os.environ,
            "TEMPORAL_ADDRESS": self.temporal_address,
            "TEMPORAL_NAMESPACE": self.temporal_namespace,
        }
        with (self.directory / f"{name}.log").open("ab") as log:
            process = subprocess.Popen([sys.executable, *arguments], stdout=log, stderr=log, env=environment)
        self._processes.append(process)
        return process

    async def close(self) -> None:
        for process in self._processes:
            process.kill()
            await asyncio.to_thread(process.wait)
        for name in ("watcher", "api", "worker"):
            if name in self._parts:
                await self.stop(name)
        for directory in (self.directory / "providers").glob("*"):
            await stop_all_processes(directory)

    # ------------------------------------------------------------------ users

    async def apply(self, name: str, spec: Mapping[str, Any]) -> None:
        """``kubectl apply`` one Proxy."""
        result = await asyncio.to_thread(self.kubectl.apply, proxy(name, spec))
        assert result.returncode == 0, result.stderr

    async def get(self, name: str) -> dict[str, Any]:
        """Return a Proxy; an empty one when it is gone."""
        result = await self.kubectl.arun("get", "px", name, "-o", "json", "--ignore-not-found")
        assert result.returncode == 0, result.stderr
        body: dict[str, Any] = yaml.safe_load(result.stdout) or {}
        return body

    async def wait_ready(self, name: str, within: float = 40.0) -> dict[str, Any]:
        """Wait as a user does, and return the object."""
        result = await self.kubectl.arun(
            "wait", f"px/{name}", "--for=condition=Ready", f"--timeout={within:.0f}s", timeout=within + 10
        )
        assert result.returncode == 0, f"{result.stderr}\n{await self.get(name)}"
        return await self.get(name)

    async def wait_for(
        self, name: str, wanted: Callable[[dict[str, Any]], bool], within: float = 30.0
    ) -> dict[str, Any]:
        """Wait until the object is as wanted."""
        return await eventually(lambda: self.get(name), wanted, within)

    @contextlib.asynccontextmanager
    async def crawler(self) -> AsyncIterator[aiohttp.ClientSession]:
        """A client of the lease API."""
        headers = {"Authorization": f"Bearer {TOKEN}"}
        base = f"http://127.0.0.1:{self.api_port}"
        timeout = aiohttp.ClientTimeout(total=15)
        async with aiohttp.ClientSession(base, headers=headers, timeout=timeout) as session:
            yield session

    async def list_proxies(self) -> dict[str, dict[str, Any]]:
        """Return what the lease API lists, by the Proxy's name; nothing while it has no answer."""
        return await self.try_to_list_proxies() or {}

    async def try_to_list_proxies(self) -> dict[str, dict[str, Any]] | None:
        """Return what the lease API lists, by the Proxy's name, or None while it has no answer."""
        try:
            async with self.crawler() as crawler, crawler.get("/v1/proxies") as answer:
                body = await answer.json()
        except aiohttp.ClientConnectionError:
            return None
        if answer.status != 200:
            return None
        return {view["id"].partition("/")[2]: view for view in body["proxies"]}

    async def workflow(self, name: str, run_id: str | None = None) -> WorkflowHandle[Any, Any]:
        """Return the handle of a Proxy's workflow; of its latest run unless another one is named."""
        client = await Client.connect(self.temporal_address, namespace=self.temporal_namespace)
        return client.get_workflow_handle(proxy_workflow_id(self.kubectl.namespace, name), run_id=run_id)

    async def wait_listed(self, name: str) -> None:
        """Wait until Temporal's list shows a Ready Proxy as such, which takes half a minute in a new namespace."""
        handle = await self.workflow(name)

        async def phase() -> str | None:
            shown = (await handle.describe()).typed_search_attributes
            return shown.get(SearchAttributeKey.for_keyword(search_attributes.PHASE))

        await eventually(phase, lambda shown: shown == READY, within=90)

    async def history_length(self, name: str) -> int:
        description = await (await self.workflow(name)).describe()
        return description.history_length


async def _run(start: Start, stop: asyncio.Event) -> None:
    await start(stop)


def condition(body: Mapping[str, Any], type_: str) -> dict[str, Any]:
    """Return a condition of an object, or an empty one."""
    for entry in body.get("status", {}).get("conditions", []):
        if entry["type"] == type_:
            found: dict[str, Any] = entry
            return found
    return {}
