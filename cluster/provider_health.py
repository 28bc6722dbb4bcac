"""ProviderHealth objects: one per configured provider, made, written and removed by us alone."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from cluster.connection import ClusterConnection
from cluster.errors import ObjectConflictError, ObjectNotFoundError
from model import names

COLLECTION_PATH = f"/apis/{names.GROUP}/{names.VERSION}/providerhealths"
LABEL_MANAGED_BY = "app.kubernetes.io/managed-by"
MANAGED_BY = "egress-proxies-operator"
"""As the reference operator labels its objects, so that a switch leaves none behind."""
LABEL_INSTALLATION = f"{names.GROUP}/installation"

_JSON_PATCH = "application/json-patch+json"
_MERGE_PATCH = "application/merge-patch+json"


class ProviderHealthStore:
    """The ProviderHealth objects of one installation; those of others are never touched.

    Objects that carry the label of the reference operator and of no installation count as ours.

    Args:
        connection: The API server.
        installation: Ours.
    """

    def __init__(self, connection: ClusterConnection, installation: str) -> None:
        self._connection = connection
        self._installation = installation

    async def status(self, name: str) -> dict[str, Any]:
        """Return the status of a provider's object, an empty one where there is none.

        Raises:
            ObjectConflictError: The object is somebody else's; the message says whose.
        """
        try:
            body = await self._connection.request("GET", _path(name))
        except ObjectNotFoundError:
            return {}
        self._check_ours(body)
        status: dict[str, Any] = body.get("status") or {}
        return status

    async def write(self, name: str, status: Mapping[str, Any]) -> None:
        """Replace the status, and make the object where there is none.

        Raises:
            ObjectConflictError: The object is somebody else's.
        """
        try:
            body = await self._write_status(name, status)
        except ObjectNotFoundError:
            await self._create(name)
            body = await self._write_status(name, status)
        if LABEL_INSTALLATION not in (body["metadata"].get("labels") or {}):
            labels = {"metadata": {"labels": {LABEL_INSTALLATION: self._installation}}}
            await self._connection.request("PATCH", _path(name), body=labels, content_type=_MERGE_PATCH)

    async def remove_others(self, configured: set[str]) -> list[str]:
        """Remove our objects of providers that are not configured; return their names."""
        selector = {"labelSelector": f"{LABEL_MANAGED_BY}={MANAGED_BY}"}
        removed = []
        async for _, items in self._connection.pages(COLLECTION_PATH, selector):
            for body in items:
                name = body["metadata"]["name"]
                if name not in configured and self._is_ours(body):
                    await self._remove(name, body["metadata"]["uid"])
                    removed.append(name)
        return removed

    async def _create(self, name: str) -> None:
        body = {
            "apiVersion": f"{names.GROUP}/{names.VERSION}",
            "kind": "ProviderHealth",
            "metadata": {
                "name": name,
                "labels": {LABEL_MANAGED_BY: MANAGED_BY, LABEL_INSTALLATION: self._installation},
            },
        }
        try:
            await self._connection.request("POST", COLLECTION_PATH, body=body)
        except ObjectConflictError:
            # Somebody was quicker: another worker of ours, or another installation.
            self._check_ours(await self._connection.request("GET", _path(name)))

    async def _write_status(self, name: str, status: Mapping[str, Any]) -> dict[str, Any]:
        patch = [{"op": "add", "path": "/status", "value": dict(status)}]
        return await self._connection.request("PATCH", _path(name) + "/status", body=patch, content_type=_JSON_PATCH)

    async def _remove(self, name: str, uid: str) -> None:
        try:
            await self._connection.request("DELETE", _path(name), body={"preconditions": {"uid": uid}})
        except ObjectNotFoundError:
            return

    def _is_ours(self, body: Mapping[str, Any]) -> bool:
        labels = body["metadata"].get("labels") or {}
        return labels.get(LABEL_MANAGED_BY) == MANAGED_BY and labels.get(LABEL_INSTALLATION, "") in (
            "",
            self._installation,
        )

    def _check_ours(self, body: Mapping[str, Any]) -> None:
        if self._is_ours(body):
            return
        labels = body["metadata"].get("labels") or {}
        owner = labels.get(LABEL_INSTALLATION)
        whose = f"installation {owner}" if owner else "somebody who did not label it as ours"
        raise ObjectConflictError(
            f"ProviderHealth {body['metadata']['name']} belongs to {whose}; it is left alone", 409
        )


def _path(name: str) -> str:
    return f"{COLLECTION_PATH}/{quote(name, safe='')}"
