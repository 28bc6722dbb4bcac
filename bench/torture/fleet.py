"""The fleet of a run: a steady part that nothing touches, and a changing part that everything happens to."""

import asyncio
import json
import time
from collections import Counter
from typing import Any

import psutil

from bench import kubectl
from bench.installation import PROXY_PORT, Installation, provider_name
from bench.results import BenchError
from model.names import instance_name
from providers.local.settings import Software

PART, STEADY, CHANGING = "part", "steady", "changing"
_POLL_SECONDS = 1.0
_CHECK = {"intervalSeconds": 2, "timeoutSeconds": 5, "failureThreshold": 3}


class Fleet:
    """Makes Proxies and looks at what became of them."""

    def __init__(self, installation: Installation, software: Software) -> None:
        self.installation = installation
        self._software = software

    def managed(self, name: str, part: str, max_leases: int) -> dict[str, Any]:
        """Return a Managed Proxy."""
        spec = {"mode": "Managed", "provider": provider_name(self._software), "port": PROXY_PORT}
        return self._proxy(name, part, max_leases, spec)

    def external(self, name: str, host: str, max_leases: int) -> dict[str, Any]:
        """Return an External Proxy of the changing part."""
        spec = {"mode": "External", "endpoint": {"host": host, "port": PROXY_PORT}}
        return self._proxy(name, CHANGING, max_leases, spec)

    def _proxy(self, name: str, part: str, max_leases: int, spec: dict[str, Any]) -> dict[str, Any]:
        check = {**_CHECK, "probeURL": self.installation.probe_url}
        common = {"maxLeases": max_leases, "attributes": {PART: part}, "healthCheck": check}
        return {
            "apiVersion": "crawl.example.com/v1alpha1",
            "kind": "Proxy",
            "metadata": {"name": name, "labels": {PART: part}},
            "spec": {**spec, **common},
        }

    async def objects(self) -> list[dict[str, Any]]:
        """Return every Proxy."""
        items: list[dict[str, Any]] = json.loads(await kubectl.run(self.installation, "get", "px", "-o", "json"))[
            "items"
        ]
        return items

    async def until_settled(self, deadline: float) -> list[str]:
        """Wait until nothing is being deleted, all is Ready and the processes are those of the Proxies.

        Returns:
            What is still wrong after ``deadline`` seconds, a sentence each; nothing when all is well.
        """
        end = time.monotonic() + deadline
        while True:
            problems = await self._problems()
            if not problems or time.monotonic() > end:
                return problems
            await asyncio.sleep(_POLL_SECONDS)

    async def until_ready(self, deadline: float) -> None:
        """Wait until the fleet is there.

        Raises:
            BenchError: It is not in time.
        """
        if problems := await self.until_settled(deadline):
            raise BenchError(f"the fleet is not there after {deadline:g} s: {'; '.join(problems[:3])}")

    async def _problems(self) -> list[str]:
        bodies = await self.objects()
        problems = [f"{_name(body)} is {_state(body)}" for body in bodies if _state(body) != "Ready"]
        managed = {instance_name(body["metadata"]["uid"]): _name(body) for body in bodies if _is_managed(body)}
        running = await asyncio.to_thread(self._processes)
        for instance, name in managed.items():
            if running[instance] != 1:
                problems.append(f"{name} has {running[instance]} processes")
        strays = [instance for instance in running if instance not in managed]
        return problems + [f"a process of {instance} runs without a Proxy" for instance in strays]

    def _processes(self) -> Counter[str]:
        """Count the living proxy processes of this run by instance, by the folder that their command line names."""
        prefix = f"{self.installation.directory / 'proxies' / self._software.value / 'instances'}/"
        found: Counter[str] = Counter()
        for process in psutil.process_iter(["status", "cmdline"]):
            if process.info["status"] == psutil.STATUS_ZOMBIE:
                continue
            for word in process.info["cmdline"] or ():
                if prefix in word:
                    found[word.partition(prefix)[2].split("/", 1)[0]] += 1
                    break
        return found


def _name(body: dict[str, Any]) -> str:
    return str(body["metadata"]["name"])


def _is_managed(body: dict[str, Any]) -> bool:
    return bool(body["spec"]["mode"] == "Managed")


def _state(body: dict[str, Any]) -> str:
    if "deletionTimestamp" in body["metadata"]:
        return "being deleted"
    for condition in body.get("status", {}).get("conditions", []):
        if condition["type"] == "Ready":
            is_current = condition.get("observedGeneration") == body["metadata"].get("generation")
            if condition["status"] == "True":
                return "Ready" if is_current else "Ready for an earlier generation"
            return f"not Ready: {condition['reason']}"
    return "without a condition Ready"
