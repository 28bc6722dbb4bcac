"""What is really there, seen from every side: objects, the box's records, processes, ports and the lease API."""

import asyncio
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

import aiohttp
import psutil

from cluster.connection import ClusterConnection
from cluster.errors import ClusterError
from cluster.proxies import collection_path
from model.instance import Instance
from model.names import instance_name
from model.proxy import Placement
from providers.contract import CreateRequest
from providers.local import process
from providers.local.provider import LocalProvider
from providers.local.records import InstanceRecord, RecordStore
from providers.local.settings import LocalSettings, Software
from tests.e2e.system import System, condition

FINALIZER = "crawl.example.com/finalizer"
SPEC_HASH = "crawl.example.com/spec-hash"


@dataclass(frozen=True, kw_only=True)
class FleetState:
    """One look at everything.

    Attributes:
        objects: Proxies by name.
        records: The box's instances by their name.
        processes: Living proxy processes by instance.
        listed: What the lease API lists, by the Proxy's name.
        unseen: What could not be looked at; nothing can be said then.
    """

    objects: Mapping[str, dict[str, Any]]
    records: Mapping[str, InstanceRecord]
    processes: Mapping[str, list[psutil.Process]]
    listed: Mapping[str, dict[str, Any]]
    unseen: Sequence[str] = ()

    def problems_of_running(self, name: str) -> list[str]:
        """Return what is not true about a Proxy that should be Ready, on one process of its own."""
        if self.unseen:
            return list(self.unseen)
        body = self.objects.get(name)
        if body is None:
            return ["there is no object"]
        uid = body["metadata"]["uid"]
        record, processes = self.records.get(instance_name(uid)), self.processes.get(instance_name(uid), [])
        problems = [] if len(processes) == 1 else [f"{len(processes)} processes"]
        if record is None or record.process is None:
            return [*problems, "no record of a process"]
        return problems + _differences(_said(body, self.listed.get(name, {})), _true(body, record, processes))

    def problems_of_gone(self, name: str, uid: str) -> list[str]:
        """Return what is left of a Proxy that should be gone."""
        if self.unseen:
            return list(self.unseen)
        left = {
            "object": name in self.objects,
            "record": instance_name(uid) in self.records,
            "process": instance_name(uid) in self.processes,
            "entry in the lease API": name in self.listed,
        }
        return [f"its {what} is still there" for what, is_there in left.items() if is_there]


def _said(body: Mapping[str, Any], listed: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the object and the lease API say."""
    status, metadata = body.get("status", {}), body["metadata"]
    ready = condition(body, "Ready")
    return {
        "Ready": (ready.get("status"), ready.get("observedGeneration"), status.get("observedGeneration")),
        "phase": status.get("phase"),
        "provisioned": condition(body, "Provisioned").get("status"),
        "ip": status.get("ip"),
        "incarnation": status.get("incarnation"),
        "providerID": status.get("providerID", "").rpartition("/")[2],
        "spec hash": metadata.get("annotations", {}).get(SPEC_HASH),
        "finalizers": metadata.get("finalizers"),
        "uid": metadata["uid"],
        "port": body["spec"]["port"],
        "pid": "as recorded",
        "listed": (listed.get("healthy"), listed.get("ip"), listed.get("port"), listed.get("phase")),
    }


def _true(body: Mapping[str, Any], record: InstanceRecord, processes: list[psutil.Process]) -> dict[str, Any]:
    """Return what the box and the kernel say."""
    generation = body["metadata"]["generation"]
    assert record.process is not None
    is_it = [running.pid for running in processes] == [record.process.pid]
    serves = process.is_alive(record.process) and process.listens(record.process, record.address, record.port)
    return {
        "Ready": ("True", generation, generation),
        "phase": "Ready",
        "provisioned": "True",
        "ip": record.address,
        "incarnation": record.incarnation,
        "providerID": record.name,
        "spec hash": record.spec_hash,
        "finalizers": [FINALIZER],
        "uid": record.uid,
        "port": record.port,
        "pid": "as recorded" if is_it and serves else f"another than {record.process.pid}, or it does not listen",
        "listed": (True, record.address, record.port, "Ready"),
    }


def _differences(said: Mapping[str, Any], true: Mapping[str, Any]) -> list[str]:
    return [f"{what} is said to be {said[what]}, it is {true[what]}" for what in said if said[what] != true[what]]


class Fleet:
    """The Proxies of one system and its box, with a stranger's instance in it."""

    def __init__(self, system: System, network: IPv4Network) -> None:
        self._system = system
        self._connection: ClusterConnection | None = None
        self._state_dir = system.directory / "providers" / "box"
        self._records = RecordStore(self._state_dir)
        self._settings = LocalSettings(software=Software.AUTO, networks=(network,), state_dir=self._state_dir)
        local = {"software": "auto", "addresses": [str(network)], "stateDir": str(self._state_dir)}
        system.write_providers({"name": "box", "type": "local", "local": local})

    async def close(self) -> None:
        """Close the connection to the API server."""
        if self._connection is not None:
            await self._connection.close()

    async def look(self) -> FleetState:
        """Look at everything."""
        objects, listed = await self._objects(), await self._system.try_to_list_proxies()
        records, processes = await asyncio.to_thread(self._look_at_box)
        parts = {"API server": objects, "lease API": listed}
        return FleetState(
            objects=objects or {},
            records=records,
            processes=processes,
            listed=listed or {},
            unseen=[f"the {part} does not answer" for part, seen in parts.items() if seen is None],
        )

    async def _objects(self) -> dict[str, dict[str, Any]] | None:
        """Return the Proxies by name, or None while the API server does not answer."""
        kubectl = self._system.kubectl
        if self._connection is None:
            self._connection = await ClusterConnection.connect(kubectl.kubeconfig)
        try:
            pages = [items async for _, items in self._connection.pages(collection_path(kubectl.namespace))]
        except ClusterError:
            return None
        return {body["metadata"]["name"]: body for items in pages for body in items}

    def _look_at_box(self) -> tuple[dict[str, InstanceRecord], dict[str, list[psutil.Process]]]:
        records = {record.name: record for record in self._records.all()}
        return records, self._system.processes_by_instance()

    async def invite_stranger(self) -> Instance:
        """Have another installation make an instance in the same box."""
        uid = "5f1d0f6e-0000-4000-8000-000000000000"
        request = CreateRequest(
            name=instance_name(uid),
            uid=uid,
            installation="somebody-else",
            namespace="elsewhere",
            proxy_name="stranger",
            placement=Placement(),
            port=3128,
            spec_hash="v1-strange",
        )
        return await LocalProvider("box", self._settings).create(request)

    async def stranger_now(self, stranger: Instance) -> tuple[str, str]:
        """Return the stranger's incarnation and state."""
        now = await LocalProvider("box", self._settings).get(stranger.provider_id)
        return now.incarnation, now.state


async def answers_connect(ip: str, port: int, url: str, trust: Path) -> bool:
    """Whether a page is to be had through a proxy."""
    context = await asyncio.to_thread(ssl.create_default_context, cafile=trust)
    timeout = aiohttp.ClientTimeout(total=10)
    async with (
        aiohttp.ClientSession(timeout=timeout) as session,
        session.get(url, proxy=f"http://{ip}:{port}", ssl=context) as answer,
    ):
        return answer.status == 200
