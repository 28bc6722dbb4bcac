"""Which Proxies exist, for whoever deletes what belongs to none of them."""

from collections.abc import Mapping
from typing import Any

from cluster.connection import ClusterConnection
from cluster.errors import ResourceExpiredError, UnreadableObjectError
from cluster.proxies import collection_path
from model.collection import LiveProxy

_TRIES = 3


class LiveProxies:
    """The Proxies of a cluster, or of one namespace of it, as the API server has them at the moment.

    Objects that the rest of the system cannot read are among them: they exist all the same.

    Args:
        connection: The API server.
        namespace: Only Proxies of this namespace; "" means all.
    """

    def __init__(self, connection: ClusterConnection, namespace: str = "") -> None:
        self._connection = connection
        self.namespace = namespace

    async def by_uid(self) -> dict[str, LiveProxy]:
        """Return every Proxy by its uid: a complete list, or none.

        Raises:
            ClusterError: Some page could not be had, or the listing grew too old again and again.
            UnreadableObjectError: Something in the list has no uid.
        """
        for _ in range(_TRIES - 1):
            try:
                return await self._list()
            except ResourceExpiredError:
                # What was read belongs to a listing that cannot be completed: it counts for nothing.
                continue
        return await self._list()

    async def _list(self) -> dict[str, LiveProxy]:
        # Without a resourceVersion the API server asks its store: no cache answers with what once was.
        pages = self._connection.pages(collection_path(self.namespace))
        return dict([_read(item) async for _, items in pages for item in items])


def _read(item: Any) -> tuple[str, LiveProxy]:
    metadata = _block(item, "metadata")
    uid = _text(metadata, "uid")
    if not uid:
        raise UnreadableObjectError("the list of Proxies has an item without a uid, so it proves nothing")
    spec, status = _block(item, "spec"), _block(item, "status")
    return uid, LiveProxy(
        namespace=_text(metadata, "namespace"),
        name=_text(metadata, "name"),
        provider=_text(spec, "provider"),
        provider_id=_text(status, "providerID"),
        incarnation=_text(status, "incarnation"),
    )


def _block(body: Any, key: str) -> Mapping[str, Any]:
    value = body.get(key) if isinstance(body, Mapping) else None
    return value if isinstance(value, Mapping) else {}


def _text(block: Mapping[str, Any], key: str) -> str:
    value = block.get(key)
    return value if isinstance(value, str) else ""
