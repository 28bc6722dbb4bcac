"""The comparison with Redis is worth something only if Redis keeps the same rules."""

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from app.dev.ports import PortBook
from bench.local_commit import encode_proxies
from bench.redis_server import PROGRAM, start_redis
from bench.running_load import start_broker
from model.lease_list import ListedProxy
from model.lease_operations import ProxyView

pytestmark = pytest.mark.skipif(shutil.which(PROGRAM) is None, reason="redis-server is not installed")


def listed(name: str, latency: int) -> ListedProxy:
    return ListedProxy(name, ProxyView("192.0.2.1", 3128, {}, "Ready", True, latency, 2, True, "one"), 0)


@asynccontextmanager
async def crawler(directory: Path) -> AsyncIterator[aiohttp.ClientSession]:
    path, ports = directory / "proxies.json", PortBook(directory / "ports.json")
    path.write_text(encode_proxies([listed("ns/slow", 30), listed("ns/quick", 10)]))
    redis, redis_port = await start_redis(directory, ports)
    port = ports.choose("api")["api"]
    api = await start_broker("redis", path, port, directory / "api.log", str(redis_port))
    try:
        async with aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session:
            yield session
    finally:
        await api.stop()
        await redis.stop()


async def acquire(session: aiohttp.ClientSession, ttl: int = 60) -> tuple[str, str]:
    """Take a lease; returns its proxy and id, or the error and nothing."""
    async with session.post("/v1/leases", json={"ttlSeconds": ttl}) as response:
        body = await response.json()
    return (body["proxy"]["id"], body["leaseID"]) if response.status == 201 else (body["error"], "")


async def test_redis_hands_out_what_the_table_would_and_never_more(tmp_path: Path) -> None:
    async with crawler(tmp_path) as session:
        taken = [await acquire(session) for _ in range(5)]
        assert [proxy for proxy, _ in taken] == ["ns/quick", "ns/slow", "ns/quick", "ns/slow", "no_match"]
        async with session.delete(f"/v1/leases/{taken[1][1]}") as response:
            assert response.status == 204
        async with session.delete(f"/v1/leases/{taken[1][1]}") as response:
            assert response.status == 204
        again = [await acquire(session) for _ in range(2)]
        assert [proxy for proxy, _ in again] == ["ns/slow", "no_match"]


async def test_an_expired_lease_frees_its_slot(tmp_path: Path) -> None:
    async with crawler(tmp_path) as session:
        for _ in range(4):
            assert (await acquire(session, ttl=1))[1]
        async with asyncio.timeout(10):
            while not (await acquire(session))[1]:  # noqa: ASYNC110 - time must pass
                await asyncio.sleep(0.1)
