"""The requests on Pods."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote

from model import names
from model.errors import TransientError
from providers.kubernetes.api_errors import CONFLICT, FORBIDDEN, GONE, NOT_FOUND, NoAnswerError, RefusedError, is_absent
from providers.kubernetes.connection import MERGE_PATCH, ApiServer
from providers.kubernetes.observation import Pod

PAGE_SIZE = 500
_TRIES = 5
_PAUSE_SECONDS = 0.1

Change = Callable[[Pod], Mapping[str, Any] | None]


class Pods:
    """The Pods of one namespace, or of all when ``scope`` is "". Raises what ``ApiServer.request`` does."""

    def __init__(self, server: ApiServer, scope: str) -> None:
        self._server = server
        self._scope = scope

    async def get(self, namespace: str, name: str) -> Pod | None:
        """Return a Pod, or None when the server says that there is none."""
        try:
            return _pod(await self._server.request("GET", _path(namespace, name)), name)
        except RefusedError as error:
            if is_absent(error):
                return None
            raise

    async def create(self, namespace: str, pod: Pod) -> Pod:
        """Create a Pod."""
        return _pod(await self._server.request("POST", collection(namespace), body=pod), pod["metadata"]["name"])

    async def delete(self, namespace: str, name: str, uid: str, grace_seconds: int) -> None:
        """Delete exactly this Pod; one that is gone is success.

        Raises:
            TransientError: It is another Pod now; look again.
        """
        options = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "gracePeriodSeconds": grace_seconds,
            "preconditions": {"uid": uid},
        }
        try:
            await self._server.request("DELETE", _path(namespace, name), body=options)
        except RefusedError as error:
            if error.code == CONFLICT:
                raise TransientError(f"Pod {namespace}/{name} changed while it was to be deleted; call again") from None
            if not is_absent(error):
                raise

    async def list_managed(self) -> list[Pod]:
        """Return every Pod in scope with our managed mark."""
        return await self._list({"labelSelector": f"{names.MARK_MANAGED}={names.MARK_MANAGED_VALUE}"})

    async def list_named(self, name: str) -> list[Pod]:
        """Return every Pod in scope of that name."""
        # Not in pages: they are read from the API server's store, every Pod of the cluster for a few that match, while
        # it answers a list without pages from memory.
        return await self._list({"fieldSelector": f"metadata.name={name}"}, page_size=0)

    async def change(self, namespace: str, name: str, uid: str, change: Change) -> Pod | None:
        """Change the metadata of exactly this Pod, from what it is when it is written.

        Args:
            namespace: Of the Pod.
            name: Of the Pod.
            uid: Which Pod of that name.
            change: Returns the part of the metadata to merge, or None when nothing is to be done.

        Returns:
            The Pod as it is now, or None when there is none with that uid.

        Raises:
            TransientError: It changes faster than it can be written.
        """
        for attempt in range(_TRIES):
            await asyncio.sleep(_PAUSE_SECONDS * attempt)
            pod = await self.get(namespace, name)
            if pod is None or pod["metadata"]["uid"] != uid:
                return None
            metadata = change(pod)
            if metadata is None:
                return pod
            precondition = {"uid": uid, "resourceVersion": pod["metadata"]["resourceVersion"]}
            body = {"metadata": {**metadata, **precondition}}
            try:
                changed = await self._server.request(
                    "PATCH", _path(namespace, name), body=body, content_type=MERGE_PATCH
                )
                return _pod(changed, name)
            except RefusedError as error:
                if error.code != CONFLICT and not is_absent(error):
                    raise
        raise TransientError(f"Pod {namespace}/{name} keeps changing; call again")

    async def _list(self, selector: Mapping[str, str], page_size: int | None = None) -> list[Pod]:
        for _ in range(_TRIES):
            try:
                return await self._list_once(selector, PAGE_SIZE if page_size is None else page_size)
            except RefusedError as error:
                if error.code != GONE:
                    raise
        raise TransientError("the list of Pods takes longer than the API server keeps it; call again")

    async def _list_once(self, selector: Mapping[str, str], page_size: int) -> list[Pod]:
        path = collection(self._scope)
        pods: list[Pod] = []
        token = ""
        while True:
            paging: dict[str, str | int] = {"limit": page_size} if page_size else {}
            paging |= {"continue": token} if token else {}
            page = await self._server.request("GET", path, query={**selector, **paging})
            metadata, items = page.get("metadata"), page.get("items")
            if page.get("kind") != "PodList" or not isinstance(metadata, Mapping) or not isinstance(items, list):
                raise NoAnswerError(f"GET {path}: the answer is no list of Pods")
            pods += [_pod(item) for item in items]
            token = metadata.get("continue") or ""
            if not token:
                return pods


async def proxy_exists(server: ApiServer, namespace: str, name: str, uid: str) -> bool:
    """Whether this API server has that Proxy; one that we may not read counts as not there."""
    path = f"/apis/{names.GROUP}/{names.VERSION}/namespaces/{quote(namespace, safe='')}/{names.PLURAL}"
    try:
        proxy = await server.request("GET", f"{path}/{quote(name, safe='')}")
    except RefusedError as error:
        if error.code in (FORBIDDEN, NOT_FOUND):
            return False
        raise
    metadata = proxy.get("metadata")
    return isinstance(metadata, Mapping) and metadata.get("uid") == uid


def collection(namespace: str) -> str:
    """Return the path of a namespace's Pods, or of all."""
    return f"/api/v1/namespaces/{quote(namespace, safe='')}/pods" if namespace else "/api/v1/pods"


def _path(namespace: str, name: str) -> str:
    return f"{collection(namespace)}/{quote(name, safe='')}"


def _pod(body: Any, name: str = "") -> Pod:
    """Return what the server answered if it is the Pod that was asked for."""
    metadata = body.get("metadata") if isinstance(body, Mapping) else None
    strings = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    if not isinstance(metadata, Mapping) or not all(isinstance(metadata.get(key), str) for key in strings):
        raise NoAnswerError("the API server's answer is no Pod")
    labels = metadata.get("labels") or {}
    if not isinstance(labels, Mapping) or not all(isinstance(value, str) for value in labels.values()):
        raise NoAnswerError(f"the labels of Pod {metadata['namespace']}/{metadata['name']} are none")
    if name and metadata["name"] != name:
        raise NoAnswerError(f"the API server answered Pod {metadata['name'][:80]} instead of {name}")
    pod: Pod = body
    return pod
