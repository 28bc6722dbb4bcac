"""The system as in production: every part an operating system process of its own, started by its command line."""

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
import yaml

from app.dev import binaries
from app.dev.binaries import ControlPlaneBinaries
from app.dev.kubernetes import ControlPlane
from app.dev.kubernetes_crds import apply_crds
from app.dev.local_providers import state_directories
from app.dev.pki import ensure_pki
from app.dev.ports import LOOPBACK, PortBook
from app.dev.processes import ChildProcess, ReadyCheck
from app.dev.report import step
from app.dev.temporal import TemporalServer
from model import names
from providers.local.provider import stop_all_processes
from providers.local.settings import Software

NETWORKS = {Software.SQUID: "127.77.1.0/24", Software.PROXY_PY: "127.77.2.0/24"}
PROXY_PORT = 3128
LEASE_WORKER, WORKER, WATCHER = "lease-worker", "worker", "watcher"
_READY_SECONDS = 60.0
_STOP_SECONDS = 3.0
_STEERING_PREFIXES = ("EGRESS_PROXIES_", "TEMPORAL_", "OTEL_")
# Without compiled modules every new workflow would cost a compilation of its module.
_STEERING = ("KUBECONFIG", "DISCOVERY_TOKEN", "SSL_CERT_FILE", "SSL_CERT_DIR", "PYTHONDONTWRITEBYTECODE")


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How the system is started.

    Attributes:
        apis: Replicas of the lease API.
        networks: Loopback addresses of the proxies, by software.
        worker_flags: More flags of the worker that does not serve leases.
        watcher_flags: More flags of the watcher.
    """

    apis: int = 1
    networks: Mapping[Software, str] = field(default_factory=lambda: NETWORKS)
    worker_flags: tuple[str, ...] = ()
    watcher_flags: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Installation:
    """The running system.

    Attributes:
        directory: Temporary; everything of the run is kept in it.
        authority: Certificate of the authority that signed the origin's.
        probe_url: Where the origin is.
        servers: The servers that are not ours, by name.
        parts: Our own processes, which can be killed and started again.
        temporal: The Temporal server, which can be killed and started again.
    """

    directory: Path
    kubeconfig: Path
    kubectl: Path
    temporal_address: str
    api_ports: tuple[int, ...]
    probe_url: str
    authority: Path
    servers: Mapping[str, ChildProcess]
    parts: "Parts"
    temporal: TemporalServer

    @property
    def children(self) -> dict[str, ChildProcess]:
        """What runs now, by name, for looking at what each costs."""
        temporal = {} if self.temporal.child is None else {"temporal": self.temporal.child}
        return {**self.servers, **temporal, **self.parts.children}

    @property
    def api_port(self) -> int:
        """The port of the first API."""
        return self.api_ports[0]


def provider_name(software: Software) -> str:
    """Return the provider that runs this software; also its task queue."""
    return f"bench-{software.value.replace('.', '-')}"


@contextlib.asynccontextmanager
async def installation(
    directory: Path, programs: ControlPlaneBinaries, software: list[Software], plan: Plan | None = None
) -> AsyncIterator[Installation]:
    """Start everything, and stop everything at the end.

    Raises:
        ProcessFailedError: A part did not become ready.
    """
    plan = plan or Plan()
    ports = PortBook(directory / "ports.json")
    control_plane = ControlPlane(directory / "kubernetes", programs)
    temporal = TemporalServer(directory / "temporal", binaries.temporal(), synchronous="FULL")
    parts = Parts(directory, ports, plan)
    async with contextlib.AsyncExitStack() as cleanup:
        cleanup.push_async_callback(control_plane.stop)
        cleanup.push_async_callback(temporal.stop)
        with step("starting etcd, kube-apiserver and Temporal (SQLite, WAL, synchronous=FULL)"):
            await asyncio.gather(control_plane.start(), temporal.start())
            await apply_crds(control_plane.kubeconfig, binaries.kubectl())
        providers_config = await asyncio.to_thread(_write_providers, directory, software, plan.networks)
        cleanup.push_async_callback(_stop_proxies, providers_config)
        cleanup.push_async_callback(parts.stop)
        with step("starting origin, lease worker, worker, watcher and lease API, a process each"):
            probe_url, authority = await parts.start_origin()
            environment = _environment(control_plane.kubeconfig, temporal.address, authority)
            api_ports = await parts.start_product(environment, providers_config, software)
        yield Installation(
            directory=directory,
            kubeconfig=control_plane.kubeconfig,
            kubectl=binaries.kubectl(),
            temporal_address=temporal.address,
            api_ports=api_ports,
            probe_url=probe_url,
            authority=authority,
            servers={child.name: child for child in control_plane.children},
            parts=parts,
            temporal=temporal,
        )


@dataclass(frozen=True, kw_only=True)
class _Start:
    """How a process is started, the first time and again."""

    command: list[str | Path]
    environment: Mapping[str, str] | None
    ready: ReadyCheck


class Parts:
    """The processes beside the servers.

    Attributes:
        children: What runs, by name.
    """

    def __init__(self, directory: Path, ports: PortBook, plan: Plan) -> None:
        self.children: dict[str, ChildProcess] = {}
        self._directory = directory
        self._ports = ports
        self._plan = plan
        self._starts: dict[str, _Start] = {}

    async def start_origin(self) -> tuple[str, Path]:
        """Start the probes' target; return its URL and the certificate to trust."""
        pki = await asyncio.to_thread(ensure_pki, self._directory / "origin-pki")
        port = self._ports.choose("origin")["origin"]
        program: list[str | Path] = [sys.executable, "-m", "bench.origin"]
        command = [*program, pki.server.certificate, pki.server.key, str(port)]
        await self._start("origin", command, None, lambda: _connects(port))
        return f"https://{LOOPBACK}:{port}/", pki.authority.certificate

    async def start_product(
        self, environment: Mapping[str, str], providers_config: Path, software: list[Software]
    ) -> tuple[int, ...]:
        """Start workers, watcher and APIs; return the APIs' ports once they know that there are no proxies."""
        apis = self._ports.choose(*api_names(self._plan.apis))
        providers = ("--providers-config", str(providers_config))
        queues = (names.QUEUE_CONTROL, names.QUEUE_PROBES, *(provider_name(one) for one in software))
        worker = ("worker", *providers, *self._plan.worker_flags, *_queue_flags(*queues))
        starts = [
            self._start_part(LEASE_WORKER, ("worker", *providers, *_queue_flags(names.QUEUE_LEASES)), environment),
            self._start_part(WORKER, worker, environment),
            self._start_part(WATCHER, ("watcher", *self._plan.watcher_flags), environment),
        ]
        for name, port in apis.items():
            starts.append(self._start_part(name, ("api", "--discovery-addr", f"{LOOPBACK}:{port}"), environment))
        await asyncio.gather(*starts)
        async with asyncio.timeout(_READY_SECONDS):
            for port in apis.values():
                while not await _api_grants_or_refuses(port):  # noqa: ASYNC110 - another process is waited for
                    await asyncio.sleep(0.1)
        return tuple(apis.values())

    async def kill(self, name: str) -> None:
        """End a process with SIGKILL, as a crash does."""
        await self.children[name].kill()

    async def start_again(self, name: str) -> None:
        """Start a process that has ended, as a supervisor does, and wait until it is ready.

        Raises:
            ProcessFailedError: It did not become ready.
        """
        start = self._starts[name]
        await self._start(name, start.command, start.environment, start.ready)

    async def stop(self) -> None:
        """Stop what runs, all at once: whoever would bring a proxy back must be gone before the proxies are stopped."""
        children = list(self.children.values())
        await asyncio.gather(*(child.stop(_STOP_SECONDS) for child in children))

    async def _start_part(self, name: str, arguments: tuple[str, ...], environment: Mapping[str, str]) -> None:
        port = self._ports.choose(f"{name}-health")[f"{name}-health"]
        health = ("--health-probe-bind-address", f"{LOOPBACK}:{port}")
        command: list[str | Path] = [sys.executable, "-m", "app.cli", *arguments, *health, "--log-format", "text"]
        await self._start(name, command, environment, lambda: _is_ready(port))

    async def _start(
        self, name: str, command: list[str | Path], environment: Mapping[str, str] | None, ready: ReadyCheck
    ) -> None:
        self._starts[name] = _Start(command=command, environment=environment, ready=ready)
        log = self._directory / "logs" / f"{name}.log"
        self.children[name] = await ChildProcess.start(
            name, command, log, environment=environment, ready=ready, deadline=_READY_SECONDS
        )


def api_names(count: int) -> tuple[str, ...]:
    """Return the names of so many API processes."""
    return ("api",) if count == 1 else tuple(f"api-{number}" for number in range(count))


def _queue_flags(*queues: str) -> tuple[str, ...]:
    return tuple(word for queue in queues for word in ("--task-queue", queue))


def _environment(kubeconfig: Path, temporal_address: str, authority: Path) -> dict[str, str]:
    """Return ours without what would lead the product elsewhere."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if name not in _STEERING and not name.startswith(_STEERING_PREFIXES)
    }
    return kept | {
        "KUBECONFIG": str(kubeconfig),
        "TEMPORAL_ADDRESS": temporal_address,
        "TEMPORAL_CONFIG_FILE": os.devnull,
        "SSL_CERT_FILE": str(authority),
    }


def _write_providers(directory: Path, software: list[Software], networks: Mapping[Software, str]) -> Path:
    providers = [
        {
            "name": provider_name(one),
            "type": "local",
            "taskQueue": provider_name(one),
            "local": {
                "software": one.value,
                "addresses": [networks[one]],
                "stateDir": str(directory / "proxies" / one.value),
            },
        }
        for one in software
    ]
    path = directory / "providers.yaml"
    path.write_text(yaml.safe_dump({"providers": providers}, sort_keys=False))
    return path


async def _stop_proxies(providers_config: Path) -> None:
    for state_directory in await asyncio.to_thread(state_directories, providers_config):
        await stop_all_processes(state_directory)


async def _connects(port: int) -> bool:
    _, writer = await asyncio.open_connection(LOOPBACK, port)
    writer.close()
    return True


async def _is_ready(port: int) -> bool:
    async with aiohttp.ClientSession() as session, session.get(f"http://{LOOPBACK}:{port}/readyz") as response:
        return response.status == 200


async def _api_grants_or_refuses(port: int) -> bool:
    """Whether the broker has been told of all Proxies; until then it answers 503."""
    url = f"http://{LOOPBACK}:{port}/v1/leases"
    async with aiohttp.ClientSession() as session, session.post(url, json={}) as response:
        return response.status in (201, 409)
