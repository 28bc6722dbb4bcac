"""Watches Proxies and labelled Secrets, and pokes the workflows of what changed.

It needs no election and may run twice: a poke is idempotent.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from cluster.connection import ClusterConnection
from cluster.errors import UnreadableObjectError
from cluster.objects import read_proxy_object
from cluster.proxies import collection_path
from cluster.watching import Change, ChangeType, CollectionWatch, WatchSettings
from model import names
from model.errors import UnavailableError
from model.messages import Poke
from watcher.pokes import PokeQueue
from watcher.view import FleetView, Key

logger = logging.getLogger(__name__)

_SECRETS_FIRST_SECONDS = 10.0


class Watcher:
    """The watcher of one cluster, or of one namespace of it."""

    def __init__(
        self,
        connection: ClusterConnection,
        *,
        send: Callable[[Poke], Awaitable[None]],
        running_workflows: Callable[[], Awaitable[set[Key]]],
        settings: WatchSettings,
        namespace: str = "",
    ) -> None:
        """Prepare to watch.

        Args:
            connection: The API server.
            send: Sends one poke; may raise ``UnavailableError``.
            running_workflows: Returns the Proxies that have a running workflow; may raise ``UnavailableError``.
            settings: Pace of both watches.
            namespace: Only this namespace; "" means all.
        """
        self._send_pokes = PokeQueue(send)
        self._running_workflows = running_workflows
        self._namespace = namespace
        secrets_scope = f"/namespaces/{namespace}" if namespace else ""
        self._proxies = CollectionWatch(connection, collection_path(namespace), settings)
        self._secrets = CollectionWatch(
            connection, f"/api/v1{secrets_scope}/secrets", settings, f"{names.LABEL_CLOUD_INIT}=true"
        )
        self.view = FleetView()
        self._proxies_listed = asyncio.Event()
        self._secrets_listed = asyncio.Event()

    @property
    def is_ready(self) -> bool:
        """Whether every Proxy has been seen once."""
        return self._proxies_listed.is_set()

    async def run(self) -> None:
        """Watch for ever."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._send_pokes.run())
            group.create_task(self._follow_secrets())
            group.create_task(self._follow_proxies())

    async def _follow_proxies(self) -> None:
        # Without the Secrets' versions every Proxy that names one would be poked twice at start.
        try:
            async with asyncio.timeout(_SECRETS_FIRST_SECONDS):
                await self._secrets_listed.wait()
        except TimeoutError:
            logger.warning("labelled Secrets could not be listed yet; going on with the Proxies")
        listed: set[Key] = set()
        async for change in self._proxies.changes():
            match change.type:
                case ChangeType.LISTING:
                    listed = set()
                case ChangeType.SEEN:
                    listed.add(_key(change))
                    await self._see(change)
                case ChangeType.DELETED:
                    await self._poke(self.view.lose_proxy(_key(change)))
                case ChangeType.LISTED:
                    await self._poke(self.view.keep_only(listed))
                    self._proxies_listed.set()
                    await self._compare_with_workflows()
                case ChangeType.BROKEN:
                    logger.warning("the watch of Proxies is broken and begins anew: %s", change.error)

    async def _see(self, change: Change) -> None:
        """Take in a Proxy; one that is none leaves what was known of it as it is, and everything else alone."""
        try:
            proxy = read_proxy_object(_body(change))
        except UnreadableObjectError as error:
            logger.error("passed over until it is mended: %s", error)
        else:
            await self._poke(self.view.see_proxy(proxy))

    async def _follow_secrets(self) -> None:
        listed: set[Key] = set()
        async for change in self._secrets.changes():
            match change.type:
                case ChangeType.LISTING:
                    listed = set()
                case ChangeType.SEEN:
                    listed.add(_key(change))
                    version = _body(change)["metadata"].get("resourceVersion", "")
                    await self._poke(self.view.see_secret(_key(change), version))
                case ChangeType.DELETED:
                    await self._poke(self.view.see_secret(_key(change), ""))
                case ChangeType.LISTED:
                    await self._poke(self.view.keep_only_secrets(listed))
                    self._secrets_listed.set()
                case ChangeType.BROKEN:
                    logger.warning("the watch of labelled Secrets is broken and begins anew: %s", change.error)

    async def _compare_with_workflows(self) -> None:
        try:
            running = await self._running_workflows()
        except UnavailableError as error:
            logger.warning("running workflows could not be listed; the next listing tries again: %s", error)
            return
        if self._namespace:
            running = {key for key in running if key[0] == self._namespace}
        await self._poke(self.view.without_counterpart(running))

    async def _poke(self, pokes: list[Poke]) -> None:
        for poke in pokes:
            await self._send_pokes.put(poke)


def _body(change: Change) -> dict[str, Any]:
    return change.body or {}


def _key(change: Change) -> Key:
    metadata = _body(change)["metadata"]
    return metadata.get("namespace", ""), metadata["name"]
