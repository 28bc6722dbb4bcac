"""Calls to the broker's workflow: starting it where it is missing, one update, the queries."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from temporalio.client import Client, WithStartWorkflowOperation, WorkflowHandle, WorkflowQueryRejectedError
from temporalio.common import QueryRejectCondition, WorkflowIDConflictPolicy
from temporalio.service import RPCError, RPCStatusCode

from leasing.futures import retrieve
from model import lease_broker, names
from model.errors import ConfigurationError
from model.lease_broker import BrokerSettings

_RPC_TIMEOUT = timedelta(seconds=10)


class BrokerWorkflow:
    """The broker of one installation; whoever needs it starts it."""

    def __init__(self, client: Client, installation: str, settings: BrokerSettings | None = None) -> None:
        self._client = client
        self._installation = installation
        self._settings = settings or BrokerSettings()
        self._handle: WorkflowHandle[Any, Any] = client.get_workflow_handle(names.LEASE_BROKER_ID)
        self._known_to_run = False

    async def update(self, batch: str, update_id: str) -> str:
        """Send one batch and return its answers, starting the broker where it is not running.

        Raises:
            RPCError: Temporal did not take it.
            WorkflowUpdateFailedError: The broker refused it.
        """
        if self._known_to_run:
            try:
                answers: str = await self._handle.execute_update(
                    lease_broker.UPDATE_BATCH, batch, id=update_id, result_type=str
                )
            except RPCError as error:
                self._known_to_run = error.status is not RPCStatusCode.NOT_FOUND
                raise
            return answers
        operation = self._start_operation()
        # The SDK also reports a failed call on the operation, where nobody looks.
        asyncio.ensure_future(operation.workflow_handle()).add_done_callback(retrieve)
        answers = await self._client.execute_update_with_start_workflow(
            lease_broker.UPDATE_BATCH,
            batch,
            start_workflow_operation=operation,
            id=update_id,
            result_type=str,
        )
        self._known_to_run = True
        return answers

    async def query(self, name: str, arguments: Sequence[Any], timeout: float) -> str:
        """Ask one of the broker's queries, starting the broker where it is not running.

        Args:
            name: One of ``model.lease_broker.QUERY_*``.
            arguments: The asker's time in Unix milliseconds, then what else the query takes.
            timeout: Seconds.

        Raises:
            RPCError: Temporal or the broker's worker did not answer in time.
        """
        try:
            return await self._query(name, arguments, timeout)
        except WorkflowQueryRejectedError:
            await self.start()
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:
                raise
            await self.start()
        return await self._query(name, arguments, timeout)

    async def _query(self, name: str, arguments: Sequence[Any], timeout: float) -> str:
        # Without the condition a closed workflow goes on answering what was true when it closed.
        answer: str = await self._handle.query(
            name,
            args=arguments,
            result_type=str,
            reject_condition=QueryRejectCondition.NOT_OPEN,
            rpc_timeout=timedelta(seconds=timeout),
        )
        return answer

    async def start(self) -> None:
        """Start the broker, or leave the one that runs alone."""
        await self._client.start_workflow(
            lease_broker.WORKFLOW_TYPE,
            args=[self._settings, b""],
            id=names.LEASE_BROKER_ID,
            task_queue=names.QUEUE_LEASES,
            task_timeout=lease_broker.TASK_TIMEOUT,
            id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
            memo={lease_broker.MEMO_INSTALLATION: self._installation},
            rpc_timeout=_RPC_TIMEOUT,
        )

    def _start_operation(self) -> WithStartWorkflowOperation[Any, Any]:
        return WithStartWorkflowOperation(
            lease_broker.WORKFLOW_TYPE,
            args=[self._settings, b""],
            id=names.LEASE_BROKER_ID,
            task_queue=names.QUEUE_LEASES,
            task_timeout=lease_broker.TASK_TIMEOUT,
            id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
            memo={lease_broker.MEMO_INSTALLATION: self._installation},
        )


async def claim_installation(client: Client, installation: str) -> None:
    """Make sure that the Temporal namespace is this installation's; the first to come gets it.

    Raises:
        ConfigurationError: It belongs to another installation.
        RPCError: Temporal does not answer.
    """
    await BrokerWorkflow(client, installation).start()
    handle = client.get_workflow_handle(names.LEASE_BROKER_ID)
    description = await handle.describe(rpc_timeout=_RPC_TIMEOUT)
    owner = await description.memo_value(lease_broker.MEMO_INSTALLATION, "", type_hint=str)
    if owner != installation:
        raise ConfigurationError(
            f"Temporal namespace {client.namespace!r} belongs to installation {owner!r}, not to {installation!r}: "
            "use another namespace (TEMPORAL_NAMESPACE) or the same --installation"
        )
