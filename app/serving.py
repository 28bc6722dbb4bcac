"""The small HTTP endpoints beside a process's work: ``/healthz``, ``/readyz`` and ``/metrics``."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from aiohttp import web
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from app.settings import ServingSettings
from model.addresses import split_host_port
from model.errors import ConfigurationError

NO_ADDRESS = ("", "0")


def split_address(address: str, flag: str) -> tuple[str | None, int]:
    """Return host and port of ``host:port`` or ``:port``; None as host means every interface.

    Raises:
        ConfigurationError: It is neither; the message names the flag.
    """
    parts = split_host_port(address)
    if parts is None:
        raise ConfigurationError(f'{flag}: "{address[:80]}" is not an address; write it like :8081 or 127.0.0.1:8081')
    host, port = parts
    return host.strip("[]") or None, port


@dataclass(frozen=True, kw_only=True)
class Endpoints:
    """The ports that are served, 0 where there is none; they differ from the settings where those leave the choice."""

    health_port: int = 0
    metrics_port: int = 0


@asynccontextmanager
async def serving(
    settings: ServingSettings, registry: CollectorRegistry, is_ready: Callable[[], bool]
) -> AsyncIterator[Endpoints]:
    """Serve the endpoints while the body runs.

    Raises:
        ConfigurationError: An address is none, or cannot be listened on; the message names the flag.
    """
    health = web.Application()
    health.add_routes([web.get("/healthz", _ok), web.get("/readyz", _ready(is_ready))])
    metrics = web.Application()
    metrics.add_routes([web.get("/metrics", _metrics(registry))])
    async with (
        _served(health, settings.health_address, "--health-probe-bind-address") as health_port,
        _served(metrics, settings.metrics_address, "--metrics-bind-address") as metrics_port,
    ):
        yield Endpoints(health_port=health_port, metrics_port=metrics_port)


@asynccontextmanager
async def _served(application: web.Application, address: str, flag: str) -> AsyncIterator[int]:
    """Serve one application while the body runs, which gets the port, or 0 where there is no address."""
    if address in NO_ADDRESS:
        yield 0
        return
    host, port = split_address(address, flag)
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=1.0)
    try:
        await runner.setup()
        try:
            await web.TCPSite(runner, host, port).start()
        except OSError as error:
            raise ConfigurationError(f"{flag}: cannot listen on {address}: {error.strerror}") from error
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


async def _ok(_request: web.Request) -> web.Response:
    return web.Response(text="ok\n")


def _ready(is_ready: Callable[[], bool]) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    async def handler(_request: web.Request) -> web.Response:
        return web.Response(text="ok\n") if is_ready() else web.Response(status=503, text="not ready\n")

    return handler


def _metrics(registry: CollectorRegistry) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    async def handler(request: web.Request) -> web.Response:
        encode, content_type = choose_encoder(request.headers.get("Accept", ""))
        body = await asyncio.to_thread(encode, registry)
        return web.Response(body=body, headers={"Content-Type": content_type})

    return handler
