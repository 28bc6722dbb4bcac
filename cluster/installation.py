"""Which installation this is."""

import json
import re

from cluster.connection import ClusterConnection
from cluster.errors import ClusterError
from model.errors import ConfigurationError

_INSTALLATION = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


def check_installation(installation: str) -> str:
    """Return ``installation`` if it is 1-63 of ``a-z``, ``0-9``, ``-`` with a letter or digit at both ends.

    Raises:
        ConfigurationError: It is not.
    """
    if not _INSTALLATION.fullmatch(installation):
        raise ConfigurationError(
            f"--installation: {json.dumps(installation[:80])} is not "
            '1-63 of a-z, 0-9 and "-" with a letter or digit at both ends'
        )
    return installation


async def cluster_installation(connection: ClusterConnection) -> str:
    """Return the installation named after the cluster: the uid of its ``kube-system`` namespace.

    Raises:
        ConfigurationError: It cannot be read; ``--installation`` names one instead.
    """
    try:
        namespace = await connection.request("GET", "/api/v1/namespaces/kube-system")
    except ClusterError as error:
        raise ConfigurationError(
            f"cannot read the uid of namespace kube-system ({error}); give --installation"
        ) from error
    return check_installation(str(namespace["metadata"]["uid"]))
