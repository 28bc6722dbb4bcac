"""Cloud-init from its source: the Proxy itself, or a labelled Secret of its namespace."""

import base64
import binascii
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from cluster.connection import ClusterConnection
from cluster.errors import ClusterError, ObjectNotFoundError
from model import names
from model.errors import EgressProxiesError
from model.proxy import CloudInit, Proxy

DEFAULT_KEY = "user-data"


class CloudInitError(EgressProxiesError):
    """The cloud-init of a Proxy cannot be read. Tried again when the object or a labelled Secret changes.

    Attributes:
        secret_version: ``resourceVersion`` of the labelled Secret that lacks what is needed, or "".
    """

    def __init__(self, message: str, secret_version: str = "") -> None:
        super().__init__(message)
        self.secret_version = secret_version


@dataclass(frozen=True, kw_only=True)
class ResolvedCloudInit:
    """User-data as it goes to the provider; never part of a message, log or history.

    Attributes:
        text: The user-data, or None where the Proxy has none.
        secret_version: ``resourceVersion`` of the Secret it came from, or "".
    """

    text: str | None = field(default=None, repr=False)
    secret_version: str = ""


class CloudInitReader:
    """Reads what a Proxy's ``spec.cloudInit`` names."""

    def __init__(self, connection: ClusterConnection) -> None:
        self._connection = connection

    async def read(self, proxy: Proxy) -> ResolvedCloudInit:
        """Return the user-data of a Proxy.

        Raises:
            CloudInitError: The Secret is missing, unlabelled or lacks the key; the message says which.
        """
        source = proxy.spec.cloud_init
        if source is None:
            return ResolvedCloudInit()
        if not source.secret_name:
            return ResolvedCloudInit(text=source.inline)
        return self._resolve(source, await self._get(proxy.namespace, source.secret_name))

    async def _get(self, namespace: str, name: str) -> dict[str, Any]:
        path = f"/api/v1/namespaces/{quote(namespace, safe='')}/secrets/{quote(name, safe='')}"
        try:
            return await self._connection.request("GET", path)
        except ObjectNotFoundError as error:
            raise CloudInitError(f"spec.cloudInit.secretRef: there is no Secret {namespace}/{name}") from error
        except ClusterError as error:
            if error.status != 403:
                raise
            raise CloudInitError(f"spec.cloudInit.secretRef: not allowed to read Secret {namespace}/{name}") from error

    @staticmethod
    def _resolve(source: CloudInit, secret: dict[str, Any]) -> ResolvedCloudInit:
        metadata = secret["metadata"]
        where = f"spec.cloudInit.secretRef: Secret {metadata['namespace']}/{metadata['name']}"
        if (metadata.get("labels") or {}).get(names.LABEL_CLOUD_INIT) != "true":
            raise CloudInitError(f'{where} lacks the label {names.LABEL_CLOUD_INIT}="true"; without it it is not read')
        version: str = metadata.get("resourceVersion", "")
        data: dict[str, str] = secret.get("data") or {}
        key = source.secret_key or (DEFAULT_KEY if DEFAULT_KEY in data or len(data) != 1 else next(iter(data)))
        if key not in data:
            raise CloudInitError(f'{where} has no key "{key}"', version)
        try:
            text = base64.b64decode(data[key]).decode()
        except (binascii.Error, UnicodeDecodeError):
            # The cause is left out: it carries the bytes.
            raise CloudInitError(f'{where}: the value of key "{key}" is not UTF-8 text', version) from None
        return ResolvedCloudInit(text=text, secret_version=version)
