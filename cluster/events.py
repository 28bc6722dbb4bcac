"""Kubernetes Events about Proxies: what ``kubectl describe`` shows below an object."""

import asyncio
import hashlib
import logging
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from cluster.connection import ClusterConnection
from cluster.errors import ClusterError, ObjectConflictError
from model import names
from model.errors import clean_message
from model.messages import ObjectEvent, ProxyReference

logger = logging.getLogger(__name__)

COMPONENT = "egress-proxies"
_TOGETHER_SECONDS = 2.0
"""For all Events of one status, so that a server which does not take them holds up nothing."""
_NAME_LIMIT = 253
_EXPECTED_REFUSALS = (403, 404)
"""The namespace is terminating or gone, or nobody granted the right to write Events."""


class EventWriter:
    """Writes Events as far as the API server takes them; a status never depends on it."""

    def __init__(self, connection: ClusterConnection) -> None:
        self._connection = connection

    async def write(self, reference: ProxyReference, events: Sequence[ObjectEvent], occasion: str) -> None:
        """Write Events about one object; nothing is raised for one that is not taken.

        Args:
            reference: The object, with its uid.
            events: What happened.
            occasion: The same for every try to write the same Events, so that none is there twice.
        """
        try:
            async with asyncio.timeout(_TOGETHER_SECONDS):
                for number, event in enumerate(events):
                    await self._write(reference, event, f"{occasion}/{number}")
        except TimeoutError:
            logger.warning("Events of %s/%s: no answer in time", reference.namespace, reference.name)
        except ClusterError as error:
            level = logging.DEBUG if error.status in _EXPECTED_REFUSALS else logging.WARNING
            logger.log(level, "Events of %s/%s: %s", reference.namespace, reference.name, error)

    async def _write(self, reference: ProxyReference, event: ObjectEvent, occasion: str) -> None:
        path = f"/api/v1/namespaces/{quote(reference.namespace, safe='')}/events"
        try:
            await self._connection.request(
                "POST", path, body=_body(reference, event, occasion), timeout=_TOGETHER_SECONDS
            )
        except ObjectConflictError:
            logger.debug("an Event of %s/%s is there already", reference.namespace, reference.name)


def _body(reference: ProxyReference, event: ObjectEvent, occasion: str) -> dict[str, Any]:
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"namespace": reference.namespace, "name": _name(reference, event, occasion)},
        "involvedObject": {
            "apiVersion": f"{names.GROUP}/{names.VERSION}",
            "kind": "Proxy",
            "namespace": reference.namespace,
            "name": reference.name,
            "uid": reference.uid,
        },
        "type": "Warning" if event.warning else "Normal",
        "reason": event.reason,
        "message": clean_message(event.message),
        "source": {"component": COMPONENT},
        "reportingComponent": COMPONENT,
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
    }


def _name(reference: ProxyReference, event: ObjectEvent, occasion: str) -> str:
    told = "\0".join((reference.uid, event.reason, occasion))
    digest = hashlib.sha256(told.encode()).hexdigest()[:16]
    return f"{reference.name[: _NAME_LIMIT - 17].rstrip('-.')}.{digest}"
