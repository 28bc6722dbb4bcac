"""Requests to an API server, each with a deadline and with the credentials as they are now."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Mapping
from typing import Any

import aiohttp
from aiohttp.http_exceptions import HttpProcessingError
from kubernetes.aio.config import ConfigException

from providers.kubernetes.api_errors import UNAUTHORIZED, NoAnswerError, NoCredentialsError, RefusedError
from providers.kubernetes.credentials import Credentials

REQUEST_TIMEOUT_SECONDS = 10.0
MERGE_PATCH = "application/merge-patch+json"
_NETWORK_ERRORS = (aiohttp.ClientError, HttpProcessingError, OSError, TimeoutError)


class _Client:
    """A client that is closed once it was replaced and nobody uses it any more."""

    def __init__(self, api: Any, version: tuple[int, ...]) -> None:
        self.api = api
        self.version = version
        self.replaced = False
        self._users = 0

    @contextlib.asynccontextmanager
    async def used(self) -> AsyncIterator[Any]:
        self._users += 1
        try:
            yield self.api
        finally:
            self._users -= 1
            if self.replaced and not self._users:
                await self.api.close()

    async def replace(self) -> None:
        self.replaced = True
        if not self._users:
            await self.api.close()


class ApiServer:
    """One API server.

    Credentials are read at the first request, again when the kubeconfig changed, and once more when the server refuses
    them: a token or a certificate that was rotated under its name.
    """

    def __init__(self, credentials: Credentials, timeout: float = REQUEST_TIMEOUT_SECONDS) -> None:
        self._credentials = credentials
        self._timeout = timeout
        self._client: _Client | None = None
        self._changing = asyncio.Lock()

    async def close(self) -> None:
        """Close the connections."""
        if self._client is not None:
            await self._client.replace()
            self._client = None
            # Transports that were closed give back their sockets in the next rounds of the event loop.
            await asyncio.sleep(0)
            await asyncio.sleep(0)

    async def address(self) -> str:
        """Return the URL of the server.

        Raises:
            NoCredentialsError: There are no usable credentials to read it from.
        """
        return str((await self._current()).api.configuration.host)

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str | int] | None = None,
        body: Any = None,
        content_type: str = "application/json",
    ) -> dict[str, Any]:
        """Send one request and return the JSON object of the answer.

        Raises:
            NoCredentialsError: There are no usable credentials.
            NoAnswerError: No answer in time, or one that is not an API server's.
            RefusedError: The server answered with an error.
        """
        client = await self._current()
        code, raw = await self._exchange(client, method, path, query, body, content_type)
        if code == UNAUTHORIZED:
            client = await self._renewed(client)
            code, raw = await self._exchange(client, method, path, query, body, content_type)
        return _answer(method, path, code, raw)

    async def _current(self) -> _Client:
        version = await self._credentials.version()
        async with self._changing:
            client = self._client
            # A file that is missing may be on its way: until the server refuses them, the credentials are good.
            if client is not None and version in (client.version, ()):
                return client
            return await self._load(version)

    async def _renewed(self, used: _Client) -> _Client:
        """Return another client than the refused one; somebody else may just have made it."""
        version = await self._credentials.version()
        async with self._changing:
            if self._client is not None and self._client is not used:
                return self._client
            return await self._load(version)

    async def _load(self, version: tuple[int, ...]) -> _Client:
        fresh = _Client(await self._credentials.client(), version)
        before, self._client = self._client, fresh
        if before is not None:
            await before.replace()
        return fresh

    async def _exchange(
        self,
        client: _Client,
        method: str,
        path: str,
        query: Mapping[str, str | int] | None,
        body: Any,
        content_type: str,
    ) -> tuple[int, bytes]:
        try:
            async with client.used() as api, asyncio.timeout(self._timeout):
                request = await api.param_serialize(
                    method,
                    path,
                    query_params=list((query or {}).items()),
                    header_params={"Accept": "application/json", "Content-Type": content_type},
                    body=body,
                    auth_settings=["BearerToken"],
                )
                response = await api.call_api(*request, _request_timeout=self._timeout)
                return int(response.status), await response.read()
        except ConfigException:
            # The library reads a service account's token again every minute.
            raise NoCredentialsError(f"{method} {path}: the service account's token cannot be read") from None
        except _NETWORK_ERRORS as error:
            timed_out = isinstance(error, TimeoutError)
            detail = "no answer in time" if timed_out else f"{type(error).__name__}: {error}"
            raise NoAnswerError(f"{method} {path}: {detail}", timed_out=timed_out) from None


def _answer(method: str, path: str, code: int, raw: bytes) -> dict[str, Any]:
    try:
        body = json.loads(raw)
    except (ValueError, RecursionError):
        body = None
    if 200 <= code <= 299:
        if isinstance(body, dict):
            return body
        raise NoAnswerError(f"{method} {path}: HTTP {code} with something that is no JSON object")
    status = body if isinstance(body, dict) and body.get("kind") == "Status" else {}
    detail = str(status.get("message") or "with something that is no answer of an API server")
    raise RefusedError(f"{method} {path}: HTTP {code} {detail}", code, status)
