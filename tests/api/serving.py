"""The API over real HTTP."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp
from prometheus_client import CollectorRegistry

from api.application import create_app
from api.server import ApiServer
from api.settings import ApiSettings
from leasing.client import BrokerClient


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    text: str

    @property
    def json(self) -> Any:
        return json.loads(self.text)

    @property
    def code(self) -> str:
        """The machine code of the error envelope; fails for anything else."""
        assert self.headers["Content-Type"].startswith("application/json"), self.text
        body = self.json
        assert isinstance(body["message"], str)
        return str(body["error"])


@dataclass
class Api:
    server: ApiServer
    session: aiohttp.ClientSession
    registry: CollectorRegistry

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.port}"

    async def ask(self, method: str, path: str, **options: Any) -> Answer:
        async with self.session.request(method, self.url + path, **options) as response:
            return Answer(response.status, dict(response.headers), await response.text())

    async def raw(self, request: bytes) -> Answer:
        """Send bytes as they are; the answer must close or be complete by its length."""
        status, headers, body = await self._exchange(request)
        return Answer(status, headers, body.decode())

    async def raw_body(self, request: bytes) -> bytes:
        """Send bytes as they are; return the body as it came."""
        return (await self._exchange(request))[2]

    async def _exchange(self, request: bytes) -> tuple[int, dict[str, str], bytes]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.server.port)
        try:
            writer.write(request)
            await writer.drain()
            async with asyncio.timeout(20):
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                lines = head.split("\r\n")
                headers = dict(line.split(": ", 1) for line in lines[1:] if line)
                body = await reader.readexactly(int(headers.get("Content-Length", "0")))
        finally:
            writer.close()
            await writer.wait_closed()
        return int(lines[0].split()[1]), headers, body

    def leases_counted(self, outcome: str) -> float | None:
        return self.registry.get_sample_value("proxy_operator_lease_requests_total", {"outcome": outcome})


@asynccontextmanager
async def serving(broker: BrokerClient, **settings: Any) -> AsyncIterator[Api]:
    facts = ApiSettings(**{"discovery_addr": "127.0.0.1:0", **settings})
    registry = CollectorRegistry()
    server = ApiServer(create_app(facts, broker, registry), facts)
    await server.start()
    try:
        async with aiohttp.ClientSession() as session:
            yield Api(server, session, registry)
    finally:
        await server.stop()
