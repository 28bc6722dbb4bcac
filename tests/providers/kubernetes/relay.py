"""A relay in front of a real API server that breaks one request when told to."""

import asyncio
import json
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import aiohttp
from aiohttp import web

from providers.conformance import Fault, FaultWay
from providers.kubernetes.credentials import Credentials
from tests.cluster.scripted_api import write_kubeconfig

CONNECTION = " (connection)"
"""After a step: it is refused by a connection that breaks, not by an answer."""
_PATIENCE_SECONDS = 20.0


@dataclass
class PlantedFault(Fault):
    """A fault, and what it holds back."""

    step: str = ""
    way: FaultWay = FaultWay.REFUSED
    let_go: asyncio.Event = field(default_factory=asyncio.Event)
    over: asyncio.Event = field(default_factory=asyncio.Event)


class Relay:
    """Passes requests on with the administrator's credentials.

    Attributes:
        kubeconfig: What a provider connects with.
        before: Called with method, path and body before a request is passed on.
        steps: What was asked since the last ``plant``: ``GET pod``, ``POST pod``, ``LIST pod``, ``GET pod #2``.
    """

    def __init__(self, kubeconfig: Path, directory: Path) -> None:
        self.kubeconfig = directory / "relay-kubeconfig"
        self.steps: list[str] = []
        self.is_down = False
        self.before: Callable[[str, str, Any], Awaitable[None]] | None = None
        self._upstream_kubeconfig = kubeconfig
        self._fault: PlantedFault | None = None
        self._counts: Counter[str] = Counter()

    async def __aenter__(self) -> Self:
        self._api = await Credentials(self._upstream_kubeconfig, "").client()
        connector = aiohttp.TCPConnector(ssl=self._api.rest_client.ssl_context)
        self._session = aiohttp.ClientSession(self._api.configuration.host, connector=connector)
        application = web.Application()
        application.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(application, shutdown_timeout=0.5)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        address = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        await asyncio.to_thread(write_kubeconfig, self.kubeconfig, address)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._runner.cleanup()
        await self._session.close()
        await self._api.close()

    @property
    def upstream(self) -> tuple[str, str]:
        """URL of the API server, and the file with its authority's certificate."""
        configuration = self._api.configuration
        return configuration.host, configuration.ssl_ca_cert

    async def admin(self, method: str, path: str, body: Any = None) -> dict[str, Any]:
        """Ask the API server itself; a PATCH is a merge patch. {} stands for what is not there."""
        headers = {"Content-Type": "application/merge-patch+json" if method == "PATCH" else "application/json"}
        data = json.dumps(body) if body is not None else None
        async with self._session.request(method, path, data=data, headers=headers) as response:
            answer = await response.json()
            assert response.status < 300 or response.status == 404, answer
            return dict(answer) if response.status < 300 else {}

    def plant(self, step: str = "", way: FaultWay = FaultWay.REFUSED) -> PlantedFault:
        """Break that step once, counted from now on."""
        self._fault = PlantedFault(step=step, way=way)
        self._counts.clear()
        self.steps.clear()
        return self._fault

    async def heal(self, fault: PlantedFault) -> None:
        """Take the fault out and wait until what it held back went on."""
        self._fault = None
        fault.let_go.set()
        if fault.happened:
            await asyncio.wait_for(fault.over.wait(), _PATIENCE_SECONDS)

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        if self.is_down:
            return _break(request)
        body = await request.read()
        if self.before is not None:
            await self.before(request.method, request.path, body)
        step = self._name(request)
        fault = self._fault
        if fault is None or fault.happened or step != fault.step.removesuffix(CONNECTION):
            return await self._pass_on(request, body)
        fault.happened = True
        try:
            return await self._misbehave(fault, request, body)
        finally:
            fault.over.set()

    async def _misbehave(self, fault: PlantedFault, request: web.Request, body: bytes) -> web.StreamResponse:
        if fault.way is FaultWay.REFUSED:
            status = {"kind": "Status", "code": 500, "reason": "InternalError", "message": "etcdserver: no leader"}
            return _break(request) if fault.step.endswith(CONNECTION) else web.json_response(status, status=500)
        if fault.way is FaultWay.HANGS:
            await fault.let_go.wait()
        answer = await self._pass_on(request, body)
        if fault.way is FaultWay.ANSWER_LOST:
            return _break(request)
        if fault.way is FaultWay.RUBBISH:
            return web.Response(text="<html>Please sign in</html>", content_type="text/html")
        return answer

    async def _pass_on(self, request: web.Request, body: bytes) -> web.Response:
        headers = {key: request.headers[key] for key in ("Content-Type", "Accept") if key in request.headers}
        async with self._session.request(request.method, request.path_qs, data=body, headers=headers) as response:
            return web.Response(status=response.status, body=await response.read(), content_type=response.content_type)

    def _name(self, request: web.Request) -> str:
        *_, before, last = request.path.split("/")
        if before in ("pods", "proxies"):
            step = f"{request.method} {'pod' if before == 'pods' else 'proxy'}"
        else:
            step = f"{'LIST' if request.method == 'GET' else request.method} {last.removesuffix('s')}"
        self._counts[step] += 1
        number = self._counts[step]
        name = step if number == 1 else f"{step} #{number}"
        self.steps.append(name)
        return name


def _break(request: web.Request) -> web.Response:
    if request.transport is not None:
        request.transport.abort()
    return web.Response()
