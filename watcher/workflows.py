"""Which Proxies have a running workflow, as Temporal's visibility store says."""

import asyncio

from temporalio.client import Client
from temporalio.service import RPCError

from model.errors import UnavailableError
from watcher.view import Key

_DEADLINE_SECONDS = 60.0
_QUERY = "WorkflowType = 'ProxyWorkflow' AND ExecutionStatus = 'Running'"


async def running_workflows(client: Client, condition: str = "") -> set[Key]:
    """Return namespace and name of every Proxy with a running workflow; the store may lag a second behind.

    Args:
        client: Of the Temporal namespace.
        condition: A further condition in Temporal's list filter language.

    A workflow that somebody started by hand, without the memo that names its Proxy, is passed over.

    Raises:
        UnavailableError: Temporal did not answer in time.
    """
    found: set[Key] = set()
    query = f"{_QUERY} AND {condition}" if condition else _QUERY
    try:
        async with asyncio.timeout(_DEADLINE_SECONDS):
            async for execution in client.list_workflows(query, page_size=1000):
                memo = await execution.memo()
                namespace, name = memo.get("namespace"), memo.get("name")
                if namespace and name:
                    found.add((str(namespace), str(name)))
    except (RPCError, TimeoutError) as error:
        raise UnavailableError(f"listing running workflows: {error or 'no answer in time'}") from error
    return found
