"""Boxes of the tests: a state folder, loopback addresses and a port that no other test has."""

import asyncio
import contextlib
import json
import os
import secrets
import signal
import socket
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from model.errors import NotFoundError
from model.instance import Instance, InstanceState
from model.proxy import Placement
from providers.config import parse_providers
from providers.contract import CreateRequest
from providers.local.process import identify
from providers.local.provider import LocalProvider
from providers.local.settings import LocalSettings

REPOSITORY = Path(__file__).parents[3]


@dataclass(frozen=True)
class TestBox:
    """One state folder with its addresses; ``provider`` is a worker's view of it."""

    __test__ = False

    state_dir: Path
    software: str
    network: str
    port: int

    def settings(self) -> LocalSettings:
        block = {"software": self.software, "addresses": [self.network], "stateDir": str(self.state_dir)}
        text = json.dumps({"providers": [{"name": "box1", "type": "local", "local": block}]})
        (entry,) = parse_providers(text.encode(), "test", require_local_task_queue=False)
        assert isinstance(entry.settings, LocalSettings)
        return entry.settings

    def provider(self) -> LocalProvider:
        return LocalProvider("box1", self.settings())

    def address(self, number: int) -> str:
        return list(self.settings().addresses())[number]

    def request(self, name: str = "proxy-a", **changes: Any) -> CreateRequest:
        values: dict[str, Any] = {
            "name": name,
            "uid": f"uid-of-{name}",
            "installation": "ours",
            "namespace": "default",
            "proxy_name": name,
            "placement": Placement(),
            "cloud_init": None,
            "port": self.port,
            "spec_hash": "v1-a",
        }
        return CreateRequest(**{**values, **changes})

    def record_file(self, name: str = "proxy-a") -> Path:
        return self.state_dir / "instances" / name / "instance.json"

    def record(self, name: str = "proxy-a") -> dict[str, Any]:
        value: dict[str, Any] = json.loads(self.record_file(name).read_text())
        return value

    def process_file(self, file: str, name: str = "proxy-a") -> str:
        """Return what /proc has in that file of the recorded process."""
        return Path("/proc", str(self.record(name)["process"]["pid"]), file).read_text()

    def edit_record(self, name: str = "proxy-a", **changes: Any) -> None:
        self.record_file(name).write_text(json.dumps({**self.record(name), **changes}))

    def processes(self, name: str = "") -> list[int]:
        """Return the pids of the living processes of this box, or of one instance, by their command lines."""
        prefix = os.fsencode(f"{self.state_dir / 'instances' / name}/" if name else f"{self.state_dir}/instances/")
        found = []
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                arguments = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if any(argument.startswith(prefix) for argument in arguments):
                found.append(int(entry.name))
        return found

    def kill_processes(self) -> None:
        """End every process of this box, whatever state its records are in."""
        deadline = time.monotonic() + 10
        living: set[int] = set()
        # The command line of a process that ends is empty a little before it is dead.
        while living := {pid for pid in living if identify(pid)} | set(self.processes()):
            for pid in living:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            assert time.monotonic() < deadline, f"{living} do not end"
            time.sleep(0.01)
        for config in self.state_dir.glob("instances/*/config-*"):
            for segment in shared_memory(config.name.removeprefix("config-")):
                segment.unlink()


def shared_memory(incarnation: str) -> list[Path]:
    """Return what the squid of that incarnation has in shared memory."""
    return list(Path("/dev/shm").glob(f"*{incarnation}*"))


def new_box(state_dir: Path, software: str, prefix_length: int = 28) -> TestBox:
    """Return a box on a random network within 127.64.0.0/10 with a port that is free there."""
    base = (127 << 24) + (64 << 16) + (secrets.randbelow(1 << 18) << 4)
    first = socket.inet_ntoa(base.to_bytes(4, "big"))
    with socket.create_server((first, 0)) as probe:
        port: int = probe.getsockname()[1]
    return TestBox(state_dir=state_dir, software=software, network=f"{first}/{prefix_length}", port=port)


async def running(provider: LocalProvider, provider_id: str) -> Instance:
    """Return the instance once it runs."""
    return await in_state(provider, provider_id, InstanceState.RUNNING)


async def in_state(provider: LocalProvider, provider_id: str, state: InstanceState) -> Instance:
    """Return the instance once it is in that state."""
    deadline = time.monotonic() + 20
    while True:
        instance = await provider.get(provider_id)
        if instance.state is state:
            return instance
        assert time.monotonic() < deadline, f"still {instance}"
        await asyncio.sleep(0.01)


async def gone(provider: LocalProvider, provider_id: str) -> int:
    """Wait until the provider says that it is gone, and return how often it was still there."""
    deadline = time.monotonic() + 20
    seen = 0
    while True:
        try:
            instance = await provider.get(provider_id)
        except NotFoundError:
            return seen
        seen += 1
        assert instance.state is not InstanceState.RUNNING
        assert time.monotonic() < deadline, f"still {instance}"
        await asyncio.sleep(0.01)
