"""The connection to Temporal, from its standard variables and profiles."""

import asyncio
import logging
from typing import Any

from temporalio.client import Client
from temporalio.envconfig import ClientConfig
from temporalio.service import RPCError

from model.errors import ConfigurationError, clean_message

logger = logging.getLogger(__name__)

_FIRST_WAIT_SECONDS = 0.5
_LONGEST_WAIT_SECONDS = 10.0


async def connect_temporal(address: str = "", namespace: str = "default") -> Client:
    """Return a client, once the server answers; while it cannot be reached this goes on trying, and says so.

    Args:
        address: ``host:port``; "" means the server that ``TEMPORAL_*`` and the chosen profile name.
        namespace: Of that address; not used with "".

    Raises:
        ConfigurationError: The variables or the profile cannot be used.
    """
    options: dict[str, Any] = {"target_host": address, "namespace": namespace} if address else _from_environment()
    address = options.setdefault("target_host", "localhost:7233")
    failures = 0
    while True:
        try:
            return await Client.connect(**options)
        except (RPCError, RuntimeError, OSError) as error:
            wait = min(_LONGEST_WAIT_SECONDS, _FIRST_WAIT_SECONDS * 2.0 ** min(failures, 10))
            logger.warning(
                "Temporal at %s does not answer, trying again in %.1f s: %s", address, wait, clean_message(str(error))
            )
            failures += 1
            await asyncio.sleep(wait)


def _from_environment() -> dict[str, Any]:
    try:
        return dict(ClientConfig.load_client_connect_config())
    except (RuntimeError, ValueError, OSError) as error:
        raise ConfigurationError(f"TEMPORAL_*: {clean_message(str(error))}") from error
