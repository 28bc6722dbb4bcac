"""Reads and writes of Proxy objects, each write guarded by the uid it was computed for."""

import logging
from collections.abc import AsyncIterator, Callable
from typing import Any
from urllib.parse import quote

from cluster.connection import ClusterConnection
from cluster.errors import ClusterError, ObjectConflictError, ObjectNotFoundError, UnreadableObjectError
from cluster.objects import read_proxy_object
from model import names
from model.proxy import Proxy, ProxyStatus, status_to_object

logger = logging.getLogger(__name__)

_CONFLICT_TRIES = 5
_MERGE_PATCH = "application/merge-patch+json"
_JSON_PATCH = "application/json-patch+json"


def collection_path(namespace: str = "") -> str:
    """Return the path of all Proxies, or of one namespace's."""
    scope = f"/namespaces/{quote(namespace, safe='')}" if namespace else ""
    return f"/apis/{names.GROUP}/{names.VERSION}{scope}/{names.PLURAL}"


class ProxyStore:
    """The Proxies of one cluster, or of one namespace of it.

    Args:
        connection: The API server.
        namespace: Only Proxies of this namespace are listed; "" means all.
    """

    def __init__(self, connection: ClusterConnection, namespace: str = "") -> None:
        self._connection = connection
        self._namespace = namespace

    async def get(self, namespace: str, name: str) -> Proxy | None:
        """Return the object as the API server has it now, or None when there is none.

        Raises:
            UnreadableObjectError: It is no Proxy.
        """
        try:
            return read_proxy_object(await self._connection.request("GET", _path(namespace, name)))
        except ObjectNotFoundError:
            return None

    async def list_readable(self) -> AsyncIterator[Proxy]:
        """Yield every Proxy in scope, in pages; an object that is none is logged and left out.

        So what is missing here is not proven to be gone.

        Raises:
            ResourceExpiredError: The listing took too long and has to start anew; what was yielded is incomplete.
        """
        async for _, items in self._connection.pages(collection_path(self._namespace)):
            for item in items:
                try:
                    proxy = read_proxy_object(item)
                except UnreadableObjectError as error:
                    logger.error("left out: %s", error)
                else:
                    yield proxy

    async def add_finalizer(self, namespace: str, name: str, uid: str) -> None:
        """Put our finalizer on the object; done already is success.

        Raises:
            ObjectConflictError: The object is gone, recreated or being deleted.
        """

        def with_finalizer(proxy: Proxy) -> list[str] | None:
            if names.FINALIZER in proxy.finalizers:
                return None
            if proxy.deleting:
                raise ObjectConflictError(f"{proxy.id} is being deleted: no finalizer can be added", 409)
            return [*proxy.finalizers, names.FINALIZER]

        await self._change_finalizers(namespace, name, uid, with_finalizer)

    async def release(self, namespace: str, name: str, uid: str) -> None:
        """Take every finalizer of ours (and of the reference operator) off; an object that is gone is success."""

        def without_ours(proxy: Proxy) -> list[str] | None:
            if not proxy.our_finalizers:
                return None
            return [name for name in proxy.finalizers if name not in proxy.our_finalizers]

        try:
            await self._change_finalizers(namespace, name, uid, without_ours)
        except ObjectNotFoundError:
            return
        except ObjectConflictError:
            current = await self.get(namespace, name)
            if current is not None and current.uid == uid:
                raise

    async def record_spec_hash(self, namespace: str, name: str, uid: str, spec_hash: str) -> None:
        """Write the spec-hash annotation.

        Raises:
            ObjectConflictError: The object is gone or was recreated.
        """
        body = {"metadata": {"uid": uid, "annotations": {names.ANNOTATION_SPEC_HASH: spec_hash}}}
        await self._patch(namespace, name, uid, body, _MERGE_PATCH)

    async def write_status(self, namespace: str, name: str, uid: str, status: ProxyStatus) -> None:
        """Replace the status of exactly this object.

        Raises:
            ObjectConflictError: The object is gone or was recreated; nothing was written.
        """
        patch = [
            {"op": "test", "path": "/metadata/uid", "value": uid},
            {"op": "add", "path": "/status", "value": status_to_object(status)},
        ]
        await self._patch(namespace, name, uid, patch, _JSON_PATCH, "/status")

    async def _change_finalizers(
        self, namespace: str, name: str, uid: str, change: Callable[[Proxy], list[str] | None]
    ) -> None:
        for attempt in range(_CONFLICT_TRIES):
            proxy = await self.get(namespace, name)
            if proxy is None or proxy.uid != uid:
                raise ObjectConflictError(f"{namespace}/{name} is not the object with uid {uid} any more", 409)
            finalizers = change(proxy)
            if finalizers is None:
                return
            body = {"metadata": {"uid": uid, "resourceVersion": proxy.resource_version, "finalizers": finalizers}}
            try:
                await self._patch(namespace, name, uid, body, _MERGE_PATCH)
            except ObjectConflictError:
                if attempt == _CONFLICT_TRIES - 1:
                    raise
            else:
                return

    async def _patch(
        self, namespace: str, name: str, uid: str, body: Any, content_type: str, subresource: str = ""
    ) -> None:
        """Send a patch that says which uid it is for; the object's being gone or another one is a conflict."""
        path = _path(namespace, name) + subresource
        try:
            await self._connection.request("PATCH", path, body=body, content_type=content_type)
        except ObjectNotFoundError as error:
            raise ObjectConflictError(str(error), 409) from error
        except ClusterError as error:
            # Another uid is answered with 422 Invalid, as a schema violation is: a failed "test" operation, or a change
            # of an immutable field.
            if error.status == 422 and await self._is_another(namespace, name, uid):
                raise ObjectConflictError(str(error), 409) from error
            raise

    async def _is_another(self, namespace: str, name: str, uid: str) -> bool:
        current = await self.get(namespace, name)
        return current is None or current.uid != uid


def _path(namespace: str, name: str) -> str:
    return f"{collection_path(namespace)}/{quote(name, safe='')}"
