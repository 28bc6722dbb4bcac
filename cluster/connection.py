"""One connection to a Kubernetes API server: requests with deadlines, streams of watch events."""

import asyncio
import json
import logging
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import aiohttp
import yaml
from aiohttp.http_exceptions import HttpProcessingError
from kubernetes.aio import client, config

from cluster.errors import ClusterError, ClusterUnavailableError, error_for
from model.errors import ConfigurationError, clean_message

logger = logging.getLogger(__name__)

REQUEST_TIMEOUT_SECONDS = 10.0
PAGE_SIZE = 500
_POOL_SIZE = 100
_DETAIL_BYTES = 4096
_UNAUTHORIZED = 401
_NETWORK_ERRORS = (aiohttp.ClientError, HttpProcessingError, OSError, TimeoutError)
# A malformed kubeconfig shows as whatever the library stumbles over: no YAML, no mapping, a missing key, bad base64.
_UNUSABLE_CREDENTIALS = (
    config.ConfigException,
    OSError,
    yaml.YAMLError,
    ValueError,
    TypeError,
    AttributeError,
    LookupError,
)


class ClusterConnection:
    """Authenticated access to one API server.

    Args:
        api: The client.
        reload: Reads the credentials from where they came from once more.
    """

    def __init__(self, api: Any, reload: Callable[[], Awaitable[None]]) -> None:
        self._api = api
        self._reload = reload
        self._reloading = asyncio.Lock()

    @classmethod
    async def connect(cls, kubeconfig: Path | None = None) -> "ClusterConnection":
        """Read the credentials; nothing is sent yet.

        Args:
            kubeconfig: A file; None means ``KUBECONFIG``, then the service account of the Pod we run in.

        Raises:
            ConfigurationError: No usable credentials.
        """
        configuration = client.Configuration()
        configuration.connection_pool_maxsize = _POOL_SIZE
        configuration.client_session_kwargs = {"trust_env": False}
        try:
            await _load(configuration, kubeconfig)
            return cls(client.ApiClient(configuration), lambda: _load(configuration, kubeconfig))
        except _UNUSABLE_CREDENTIALS as error:
            where = f" ({kubeconfig})" if kubeconfig is not None else ""
            raise ConfigurationError(
                f"no access to a Kubernetes cluster{where}: {clean_message(str(error))}; "
                "give --kubeconfig, set KUBECONFIG or run in a Pod with a service account"
            ) from error

    async def close(self) -> None:
        """Close the connections."""
        await self._api.close()
        # Transports that were closed or aborted give back their sockets in the next rounds of the event loop.
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str | int | bool] | None = None,
        body: Any = None,
        content_type: str = "application/json",
        timeout: float = REQUEST_TIMEOUT_SECONDS,
    ) -> dict[str, Any]:
        """Send one request and return the JSON object of the answer.

        Args:
            method: HTTP method.
            path: Path on the API server.
            query: Query parameters.
            body: JSON body.
            content_type: For PATCH, the kind of patch.
            timeout: Seconds for the whole exchange.

        Raises:
            ClusterUnavailableError: No answer in time, or one that is not the API server's.
            ClusterError: The server refused; 404, 409 and 410 have classes of their own.
        """
        try:
            async with asyncio.timeout(timeout):
                response = await self._send(method, path, query, body, content_type, timeout)
                raw = await response.read()
        except _NETWORK_ERRORS as error:
            raise _unavailable(method, path, error) from error
        return _parse(method, path, response.status, raw)

    async def pages(
        self, path: str, query: Mapping[str, str | int | bool] | None = None
    ) -> AsyncIterator[tuple[str, list[dict[str, Any]]]]:
        """Yield a collection page by page: the version of the whole, and some of its objects.

        Args:
            path: Path of the collection.
            query: Query parameters; paging is added.

        Raises:
            ResourceExpiredError: The listing took too long and has to start anew; what was yielded is incomplete.
            ClusterUnavailableError: As ``request``, or an answer that is no list.
            ClusterError: The server refused.
        """
        token = ""
        while True:
            paging = {"limit": PAGE_SIZE} | ({"continue": token} if token else {})
            page = await self.request("GET", path, query={**(query or {}), **paging})
            metadata = page.get("metadata")
            version = metadata.get("resourceVersion") if isinstance(metadata, dict) else None
            if not isinstance(metadata, dict) or not version or "items" not in page:
                raise ClusterUnavailableError(f"GET {path}: the answer is no list")
            yield version, page["items"] or []
            token = metadata.get("continue") or ""
            if not token:
                return

    async def stream(
        self, path: str, *, query: Mapping[str, str | int | bool], idle_timeout: float, lifetime: float = math.inf
    ) -> AsyncIterator[dict[str, Any]]:
        """Yield the events of a watch until the server ends it, or its lifetime is over.

        Args:
            path: Path of the collection.
            query: Query parameters; ``watch`` is added.
            idle_timeout: Seconds without a byte after which the stream counts as broken.
            lifetime: Seconds after which no further event is read, whatever the server was asked for.

        Raises:
            ResourceExpiredError: Inside or outside the stream; list anew.
            ClusterUnavailableError: Refused, broken, silent, or something that is no event.
            ClusterError: Refused, or another ``ERROR`` event.
        """
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=REQUEST_TIMEOUT_SECONDS, sock_read=idle_timeout)
        ends_at = asyncio.get_running_loop().time() + lifetime if lifetime < math.inf else None
        response = None
        try:
            async with asyncio.timeout(REQUEST_TIMEOUT_SECONDS):
                response = await self._send("GET", path, {**query, "watch": True}, None, "application/json", timeout)
                if response.status != 200:
                    _parse("GET", path, response.status, await response.read())
            while line := await _next_line(response.response.content, ends_at):
                if line.strip():
                    yield _event(line)
        except (*_NETWORK_ERRORS, ValueError) as error:
            raise _unavailable("WATCH", path, error) from error
        finally:
            if response is not None:
                _abandon(response.response)

    async def _send(
        self,
        method: str,
        path: str,
        query: Mapping[str, str | int | bool] | None,
        body: Any,
        content_type: str,
        timeout: Any,
    ) -> Any:
        """Send a request; one that is refused as unauthenticated is sent once more with credentials as they are now."""
        for is_last in (False, True):
            request = await self._api.param_serialize(
                method,
                path,
                query_params=[(key, value) for key, value in (query or {}).items()],
                header_params={"Accept": "application/json", "Content-Type": content_type},
                body=body,
                auth_settings=["BearerToken"],
            )
            used = self._token()
            response = await self._api.call_api(*request, _request_timeout=timeout)
            if response.status != _UNAUTHORIZED or is_last or not await self._has_newer_credentials(used):
                break
            await response.read()
        return response

    async def _has_newer_credentials(self, used: str | None) -> bool:
        """Whether the credentials are others than the used ones, once they were read again if nobody else just did."""
        async with self._reloading:
            if self._token() == used:
                try:
                    await self._reload()
                except _UNUSABLE_CREDENTIALS as error:
                    logger.warning("the credentials could not be read again: %s", clean_message(str(error)))
            return self._token() != used

    def _token(self) -> str | None:
        token = self._api.configuration.api_key.get("BearerToken")
        return token if isinstance(token, str) else None


async def _load(configuration: Any, kubeconfig: Path | None) -> None:
    if kubeconfig is not None:
        if not await asyncio.to_thread(kubeconfig.is_file):
            raise config.ConfigException("there is no such file")
        await config.load_kube_config(config_file=str(kubeconfig), client_configuration=configuration)
        return
    try:
        config.load_incluster_config(client_configuration=configuration)
    except config.ConfigException:
        await config.load_kube_config(client_configuration=configuration, persist_config=False)


async def _next_line(content: aiohttp.StreamReader, ends_at: float | None) -> bytes:
    """Return the next line, or b"" at the end of the stream or of its time."""
    try:
        async with asyncio.timeout_at(ends_at) as patience:
            return await content.readline()
    except TimeoutError:
        if patience.expired():
            return b""
        raise


def _abandon(response: aiohttp.ClientResponse) -> None:
    """Close a stream's connection at once; a polite end of TLS would outlive the caller's event loop."""
    connection = response.connection
    if connection is not None and connection.transport is not None:
        connection.transport.abort()
    response.close()


def _parse(method: str, path: str, status: int, raw: bytes) -> dict[str, Any]:
    try:
        body = json.loads(raw)
    except ValueError:
        body = None
    if 200 <= status <= 299:
        if isinstance(body, dict):
            return body
        raise ClusterUnavailableError(f"{method} {path}: HTTP {status} with something that is no JSON object", status)
    detail = body.get("message", "") if isinstance(body, dict) else raw[:_DETAIL_BYTES].decode("utf-8", "replace")
    raise error_for(status, clean_message(f"{method} {path}: HTTP {status} {detail}"))


def _event(line: bytes) -> dict[str, Any]:
    event = json.loads(line)
    body = event.get("object") if isinstance(event, dict) else None
    if not isinstance(body, dict):
        raise ValueError("not an event")
    if event.get("type") != "ERROR":
        return dict(event)
    code = body.get("code")
    message = clean_message(f"watch: {body.get('message') or 'ERROR event'}")
    raise error_for(code if isinstance(code, int) else 0, message)


def _unavailable(method: str, path: str, error: BaseException) -> ClusterError:
    detail = "no answer in time" if isinstance(error, TimeoutError) else f"{type(error).__name__}: {error}"
    return ClusterUnavailableError(clean_message(f"{method} {path}: {detail}"))
