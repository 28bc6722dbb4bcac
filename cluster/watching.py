"""An endless, gap-free view of a collection: list, then watch, then list again when the server says so."""

import asyncio
import random
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from cluster.connection import ClusterConnection
from cluster.errors import ClusterError, ClusterUnavailableError, ResourceExpiredError


class ChangeType(StrEnum):
    """What happened to an object, or to the view."""

    LISTING = "Listing"
    """A new listing begins."""
    SEEN = "Seen"
    """The object exists in this state."""
    DELETED = "Deleted"
    LISTED = "Listed"
    """The listing is complete: what was not repeated since ``LISTING`` is gone."""
    BROKEN = "Broken"
    """The view cannot be kept up to date now; the reason is in ``Change.error``."""


@dataclass(frozen=True, kw_only=True)
class Change:
    """One change; ``body`` is the object's JSON for ``SEEN`` and ``DELETED``."""

    type: ChangeType
    body: dict[str, Any] | None = None
    error: str = ""


@dataclass(frozen=True, kw_only=True)
class WatchSettings:
    """Pace of a watch, in seconds.

    Attributes:
        relist: Age of a listing at which everything is listed anew.
        server_timeout: After how long the server is asked to end one watch request.
        end_grace: How much longer than that a stream is followed before it is ended from here.
        idle_timeout: Silence after which a stream counts as broken; the server sends a bookmark about every minute.
        retry_first: First wait after a failure; it doubles up to ``retry_limit``, with jitter.
    """

    relist: float = 600.0
    server_timeout: float = 240.0
    end_grace: float = 10.0
    idle_timeout: float = 150.0
    retry_first: float = 0.5
    retry_limit: float = 30.0


class CollectionWatch:
    """Watches one collection for ever.

    Args:
        connection: The API server.
        path: Path of the collection.
        settings: Pace.
        label_selector: Only objects with these labels.
    """

    def __init__(
        self, connection: ClusterConnection, path: str, settings: WatchSettings, label_selector: str = ""
    ) -> None:
        self._connection = connection
        self._path = path
        self._settings = settings
        self._selector: dict[str, str | int | bool] = {"labelSelector": label_selector} if label_selector else {}

    async def changes(self) -> AsyncGenerator[Change, None]:
        """Yield changes for ever.

        A failure is yielded as ``BROKEN``, waited out, and followed by a new listing. A version that the server no
        longer has leads to a new listing without a word, and without a wait where nothing else failed just before.
        """
        loop = asyncio.get_running_loop()
        failures = 0
        while True:
            began = loop.time()
            try:
                yield Change(type=ChangeType.LISTING)
                version = ""
                async for listed_version, items in self._connection.pages(self._path, self._selector):
                    version = listed_version
                    for item in items:
                        yield Change(type=ChangeType.SEEN, body=_named(item))
                yield Change(type=ChangeType.LISTED)
                async for change in self._follow(version):
                    yield change
                failures = 0
            except ClusterError as error:
                # A listing alone is no sign of health: a server may answer it and break every stream.
                if loop.time() - began > self._settings.retry_limit:
                    failures = 0
                expired = isinstance(error, ResourceExpiredError)
                if not expired:
                    yield Change(type=ChangeType.BROKEN, error=str(error))
                if not expired or failures:
                    await asyncio.sleep(self._wait(failures))
                failures += 1

    def _wait(self, failures: int) -> float:
        longest = min(self._settings.retry_limit, self._settings.retry_first * 2.0 ** min(failures, 16))
        return longest * random.uniform(0.5, 1.0)  # noqa: S311 - jitter, not a secret

    async def _follow(self, version: str) -> AsyncIterator[Change]:
        """Watch from ``version`` until it is time to list again, reopening the stream where the server ends it."""
        loop = asyncio.get_running_loop()
        relist_at = loop.time() + self._settings.relist
        while (left := relist_at - loop.time()) > 0:
            seconds = max(1, int(min(left, self._settings.server_timeout)))
            query = {
                **self._selector,
                "resourceVersion": version,
                "allowWatchBookmarks": True,
                "timeoutSeconds": seconds,
            }
            opened_at = loop.time()
            async for event in self._connection.stream(
                self._path,
                query=query,
                idle_timeout=self._settings.idle_timeout,
                # Something between us and the server may keep the stream alive and never end it.
                lifetime=seconds + self._settings.end_grace,
            ):
                body = event["object"]
                # A bookmark carries a version and nothing else, not even a name.
                version = _metadata(body).get("resourceVersion") or version
                if event.get("type") in ("ADDED", "MODIFIED"):
                    yield Change(type=ChangeType.SEEN, body=_named(body))
                elif event.get("type") == "DELETED":
                    yield Change(type=ChangeType.DELETED, body=_named(body))
            if loop.time() - opened_at < 1:
                # A server that ends every stream at once must not be asked again and again without a pause.
                await asyncio.sleep(self._settings.retry_first)


def _named(body: Any) -> dict[str, Any]:
    """Return an object that has a name.

    Raises:
        ClusterUnavailableError: It has none, so whoever answers is no API server.
    """
    metadata = _metadata(body)
    if not all(isinstance(metadata.get(key, ""), str) for key in ("namespace", "name")) or not metadata.get("name"):
        raise ClusterUnavailableError("the API server sent something that is no object")
    return dict(body)


def _metadata(body: Any) -> dict[str, Any]:
    metadata = body.get("metadata") if isinstance(body, dict) else None
    return metadata if isinstance(metadata, dict) else {}
