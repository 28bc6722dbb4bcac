"""A fleet of real proxies behind the real API, and the client as a user installs it."""

import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from egress_proxies_client import AsyncClient, Client
from tests.clients.python.breaking import BREAKS, WORKS, BreakingProxy
from tests.clients.python.shop import Shop
from tests.e2e.conftest import check, e2e_authority, site, system
from tests.e2e.polling import eventually
from tests.e2e.system import TOKEN, System
from tests.probing.certificates import Authority

__all__ = ["check", "e2e_authority", "site", "system"]

CLIENT = Path(__file__).resolve().parents[3] / "clients" / "python"


@dataclass
class Fleet:
    """Two proxies, and how to reach the API that leases them."""

    system: System

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.system.api_port}"

    def client(self) -> Client:
        return Client(self.url, token=TOKEN)

    def async_client(self, retry_for: float = 30.0) -> AsyncClient:
        return AsyncClient(self.url, token=TOKEN, retry_for=retry_for)

    async def active_leases(self) -> dict[str, int]:
        return {name: view["activeLeases"] for name, view in (await self.system.list_proxies()).items()}


@pytest.fixture
async def fleet(request: pytest.FixtureRequest, system: System, check: dict[str, object]) -> Fleet:
    """Two proxies, each of which takes one lease, or as many as the fixture's parameter says."""
    max_leases = getattr(request, "param", 1)
    system.start_all()
    names = ("one", "two")
    spec = {"mode": "Managed", "provider": "box", "attributes": WORKS, "healthCheck": check, "maxLeases": max_leases}
    for name in names:
        await system.apply(name, spec)
    for name in names:
        await system.wait_ready(name)
    healthy = dict.fromkeys(names, True)
    await eventually(
        system.list_proxies, lambda listed: {name: view["healthy"] for name, view in listed.items()} == healthy
    )
    return Fleet(system)


@pytest.fixture
async def shop(e2e_authority: Authority) -> AsyncIterator[Shop]:
    """The HTTPS site that is crawled."""
    server = Shop(e2e_authority.server("127.0.0.1", "localhost"))
    yield server
    server.close()


@pytest.fixture
async def breaking(fleet: Fleet, shop: Shop, check: dict[str, object]) -> AsyncIterator[BreakingProxy]:
    """An External proxy beside the fleet that breaks when it is to reach the shop."""
    server = BreakingProxy(shop.port)
    endpoint = {"host": "127.0.0.1", "port": server.port}
    spec = {"mode": "External", "endpoint": endpoint, "attributes": BREAKS, "healthCheck": check, "maxLeases": 5}
    await fleet.system.apply("breaking", spec)
    await fleet.system.wait_ready("breaking")
    await eventually(fleet.system.list_proxies, lambda listed: "breaking" in listed and listed["breaking"]["healthy"])
    yield server
    server.close()


@pytest.fixture(scope="session")
def installed_client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder into which pip has installed the client."""
    directory = tmp_path_factory.mktemp("client")
    shutil.copytree(CLIENT, directory / "source", ignore=shutil.ignore_patterns("build", "*.egg-info", "__pycache__"))
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--no-build-isolation"]
    where = ["--target", str(directory / "installed"), str(directory / "source")]
    subprocess.run([*command, *where], check=True, timeout=100)
    yield directory / "installed"
    shutil.rmtree(directory)


@pytest.fixture
def environment(fleet: Fleet, installed_client: Path) -> dict[str, str]:
    """The environment of a user's program."""
    return {
        **os.environ,
        "EGRESS_PROXIES_URL": fleet.url,
        "EGRESS_PROXIES_TOKEN": TOKEN,
        "PYTHONPATH": str(installed_client),
        "PYTHONUNBUFFERED": "1",
    }
