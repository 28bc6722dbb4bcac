"""The product's broker client with something else in the place of group commit and workflow.

Handlers and client stay the product's own, so that only what keeps the leases differs.
"""

import asyncio
import json
from collections.abc import Callable, Iterable

from temporalio.client import Client

from leasing.client import BrokerClient
from leasing.group_commit import GroupCommit, PendingOperation
from model.lease_answers import Answer
from model.lease_list import ListedProxy
from model.lease_operations import Operation

NOWHERE = "127.0.0.1:9"
"""The client wants the address of a Temporal server, and never connects to it."""

Apply = Callable[[Operation, "asyncio.Future[Answer]"], None]
"""Applies an operation and sees to its answer, at once or later."""


def encode_proxies(proxies: Iterable[ListedProxy]) -> str:
    """Return the proxies of a real broker as text."""
    return json.dumps([[proxy.id, proxy.view] for proxy in proxies])


class LocalBroker(BrokerClient):
    """Leases kept by a function."""

    def __init__(self, client: Client, apply: Apply) -> None:
        super().__init__(client, "bench")
        self._commit = _LocalCommit(apply)


async def local_client() -> Client:
    """Return a Temporal client that is never used."""
    return await Client.connect(NOWHERE, lazy=True)


class _LocalCommit(GroupCommit):
    def __init__(self, apply: Apply) -> None:
        self._apply = apply

    def submit(self, operation: Operation, deadline: float) -> PendingOperation:
        pending = _Pending(deadline)
        self._apply(operation, pending.answer)
        return pending

    async def drain(self, timeout: float) -> None:
        return


class _Pending(PendingOperation):
    """One that is not written out, because it does not travel."""

    def __init__(self, deadline: float) -> None:
        self.encoded = ""
        self.deadline = deadline
        self.answer = asyncio.get_running_loop().create_future()
        self.sent = True
