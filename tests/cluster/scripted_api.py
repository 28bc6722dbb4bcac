"""An API server for the faults that a real one does not show on demand."""

import asyncio
import contextlib
import json
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from aiohttp import web

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class ScriptedApi:
    """Answers lists and watches with handlers that a test sets, and notes when each was asked."""

    def __init__(self, directory: Path, tls: ssl.SSLContext | None = None) -> None:
        self._tls = tls
        self.port = 0
        self.kubeconfig = directory / "scripted-kubeconfig"
        self.lists: list[dict[str, str]] = []
        self.watches: list[dict[str, str]] = []
        self.on_list: Handler = _answer_empty
        self.on_watch: Handler = self.hang
        self._ended = asyncio.Event()
        self._stack = contextlib.AsyncExitStack()

    async def __aenter__(self) -> Self:
        application = web.Application()
        application.router.add_route("*", "/{path:.*}", self._dispatch)
        runner = web.AppRunner(application, shutdown_timeout=0.5)
        await runner.setup()
        self._stack.push_async_callback(runner.cleanup)
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=self._tls).start()
        self.port = runner.addresses[0][1]
        await asyncio.to_thread(write_kubeconfig, self.kubeconfig, f"http://127.0.0.1:{self.port}")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        await self._stack.aclose()

    async def hang(self, request: web.Request) -> web.StreamResponse:
        """Open a stream and say nothing until the test ends."""
        response = await open_stream(request)
        await self._ended.wait()
        return response

    async def silence(self, _request: web.Request) -> web.StreamResponse:
        """Do not even answer until the test ends."""
        await self._ended.wait()
        return web.Response()

    async def _dispatch(self, request: web.Request) -> web.StreamResponse:
        query = dict(request.query)
        if "watch" in query:
            self.watches.append(query)
            return await self.on_watch(request)
        self.lists.append(query)
        return await self.on_list(request)


def write_kubeconfig(path: Path, server: str, user: dict[str, str] | None = None) -> None:
    """Write a kubeconfig for a server; without a user there is no authentication."""
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": user or {}}],
    }
    path.write_text(json.dumps(config))


async def _answer_empty(_request: web.Request) -> web.Response:
    return page("1")


def page(version: str, *names: str, token: str = "") -> web.Response:
    """Return a page of a list."""
    metadata = {"resourceVersion": version} | ({"continue": token} if token else {})
    return web.json_response({"kind": "List", "metadata": metadata, "items": [item(name, version) for name in names]})


def item(name: str, version: str = "1") -> dict[str, Any]:
    """Return an object."""
    return {"metadata": {"namespace": "ns", "name": name, "uid": f"uid-{name}", "resourceVersion": version}}


def refusal(code: int, message: str = "no") -> web.Response:
    """Return an error as the API server words it."""
    return web.json_response(status_object(code, message), status=code)


def status_object(code: int, message: str = "no") -> dict[str, Any]:
    """Return the object of an error."""
    return {"kind": "Status", "status": "Failure", "code": code, "message": message}


async def open_stream(request: web.Request, *lines: bytes) -> web.StreamResponse:
    """Begin the answer to a watch with some lines."""
    response = web.StreamResponse(headers={"Content-Type": "application/json"})
    await response.prepare(request)
    for line in lines:
        await response.write(line)
    return response


def event(kind: str, body: dict[str, Any]) -> bytes:
    """Return the line of an event."""
    return json.dumps({"type": kind, "object": body}).encode() + b"\n"
