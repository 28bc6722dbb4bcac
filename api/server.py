"""Listening, and stopping without losing an answer."""

import asyncio
import logging
import socket
from http import HTTPStatus
from typing import Any

from aiohttp import web

from api.errors import ApiError, from_http_exception
from api.settings import ApiSettings, check_exposure, parse_address
from model.errors import ConfigurationError

logger = logging.getLogger(__name__)

KEEP_ALIVE_SECONDS = 60.0
"""How long a connection may take to bring a complete head of a request: since it was made, or since the last answer."""

UNREAD_SECONDS = 30
"""How long a client may take no byte of an answer that waits for it."""

SHUTDOWN_SECONDS = 10.0
"""How long requests that are being answered may take when the process stops."""


class ApiServer:
    """Serves one application.

    Attributes:
        ready: Whether new requests are welcome; false from the start of a stop on.
    """

    def __init__(self, app: web.Application, settings: ApiSettings) -> None:
        self.ready = False
        self._settings = settings
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=SHUTDOWN_SECONDS)
        self._server: asyncio.Server | None = None

    @property
    def port(self) -> int:
        """The port it listens on, also where 0 was asked for."""
        if self._server is None:
            raise RuntimeError("the API is not listening")
        return int(self._server.sockets[0].getsockname()[1])

    async def start(self) -> None:
        """Listen.

        Raises:
            ConfigurationError: The address cannot be used, or must not be without a token.
        """
        check_exposure(self._settings)
        host, port = parse_address(self._settings.discovery_addr)
        await self._runner.setup()
        try:
            loop = asyncio.get_running_loop()
            self._server = await loop.create_server(self._protocol, host or None, port, reuse_address=True)
        except OSError as error:
            await self._runner.cleanup()
            address = self._settings.discovery_addr
            raise ConfigurationError(f"--discovery-addr {address!r} cannot be used: {error.strerror}") from error
        if not self._settings.token:
            logger.warning("DISCOVERY_TOKEN is empty: the lease API asks nobody for a token")
        self.ready = True

    async def stop(self, notice: float = 0.0) -> None:
        """Answer what has been asked, then close; idle connections are closed at once.

        Args:
            notice: Seconds to go on serving while ``ready`` is already false, for those who watch it.
        """
        self.ready = False
        if self._server is None:
            return
        await asyncio.sleep(notice)
        self._server.close()
        await self._runner.cleanup()
        await self._server.wait_closed()
        self._server = None

    def _protocol(self) -> web.RequestHandler:
        server = self._runner.server
        if server is None:
            raise RuntimeError("the API is not set up")
        loop = asyncio.get_running_loop()
        # aiohttp's own runners pass None for "no access log" too, past the annotation.
        return _Protocol(server, loop=loop, access_log=None, keepalive_timeout=KEEP_ALIVE_SECONDS)  # type: ignore[arg-type]


class _Protocol(web.RequestHandler):
    """Answers in the envelope what never reaches the application, and waits for no client for ever."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        connection = transport.get_extra_info("socket")
        # Linux ends a connection whose window stays closed, tcp(7). Other systems lack the option, and then such a
        # client holds no more than its connection.
        option = getattr(socket, "TCP_USER_TIMEOUT", None)
        if connection is not None and option is not None:
            connection.setsockopt(socket.IPPROTO_TCP, option, UNREAD_SECONDS * 1000)

    async def finish_response(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        # aiohttp refuses an unknown Expect header before any middleware runs.
        if isinstance(resp, web.HTTPException):
            resp = from_http_exception(resp).response()
        return await super().finish_response(request, resp, start_time)

    def log_exception(self, *args: Any, **kw: Any) -> None:
        # A body that turned out to be malformed after it was answered is the client's affair.
        if not isinstance(kw.get("exc_info"), web.RequestPayloadError):
            super().log_exception(*args, **kw)

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        if status == HTTPStatus.BAD_REQUEST:
            response = ApiError(HTTPStatus.BAD_REQUEST, "bad_request", "the request is not valid HTTP").response()
        else:
            logger.error("unhandled error outside of any handler", exc_info=exc)
            response = ApiError(HTTPStatus.INTERNAL_SERVER_ERROR, "internal", "internal server error").response()
        response.force_close()
        return response


async def serve(app: web.Application, settings: ApiSettings, stop: asyncio.Event, notice: float = 0.0) -> None:
    """Serve until ``stop`` is set, then stop within 25 seconds less ``notice``.

    Raises:
        ConfigurationError: As ``ApiServer.start``.
    """
    server = ApiServer(app, settings)
    await server.start()
    await stop.wait()
    await server.stop(notice)
