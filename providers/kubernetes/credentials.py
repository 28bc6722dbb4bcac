"""Reads the credentials for an API server from where they lie."""

import asyncio
import os
from pathlib import Path
from typing import Any

import yaml
from kubernetes.aio import client, config

from providers.kubernetes.api_errors import NoCredentialsError

_POOL_SIZE = 100
# A malformed kubeconfig shows as whatever the library stumbles over: no YAML, no mapping, a missing key, bad base64.
_UNUSABLE = (config.ConfigException, OSError, yaml.YAMLError, ValueError, TypeError, AttributeError, LookupError)


class Credentials:
    """Where the credentials lie; they are read anew for each client, so that rotation needs no restart.

    Args:
        kubeconfig: A file; None means the service account of the Pod we run in, else ``KUBECONFIG``.
        context: Context of the file, "" for its current one.
    """

    def __init__(self, kubeconfig: Path | None, context: str) -> None:
        self._kubeconfig = kubeconfig
        self._context = context

    async def version(self) -> tuple[int, ...]:
        """Return what changes when the file is written or swapped; it may be missing for a moment."""
        return await asyncio.to_thread(self._stat)

    async def client(self) -> Any:
        """Return a client with the credentials as they are now; nothing is sent yet.

        Raises:
            NoCredentialsError: There are none, or they cannot be used; their content is not told.
        """
        configuration = client.Configuration()
        configuration.connection_pool_maxsize = _POOL_SIZE
        configuration.client_session_kwargs = {"trust_env": False}
        try:
            await self._load(configuration)
            return client.ApiClient(configuration)
        except _UNUSABLE as error:
            # The library puts whole entries of the file into its messages, so the cause is not chained either.
            where = f"kubeconfig {self._kubeconfig}" if self._kubeconfig else "service account or KUBECONFIG"
            missing = isinstance(error, FileNotFoundError)
            detail = "there is no such file" if missing else f"cannot be used ({type(error).__name__})"
            raise NoCredentialsError(f"no access to a Kubernetes cluster: {where}: {detail}") from None

    async def _load(self, configuration: Any) -> None:
        if self._kubeconfig is not None:
            if not await asyncio.to_thread(self._kubeconfig.is_file):
                raise FileNotFoundError
            await config.load_kube_config(
                config_file=str(self._kubeconfig),
                context=self._context or None,
                client_configuration=configuration,
                persist_config=False,
            )
            return
        try:
            config.load_incluster_config(client_configuration=configuration)
        except config.ConfigException:
            await config.load_kube_config(client_configuration=configuration, persist_config=False)

    def _stat(self) -> tuple[int, ...]:
        if self._kubeconfig is None:
            return ()
        try:
            status = os.stat(self._kubeconfig)
        except OSError:
            return ()
        return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
