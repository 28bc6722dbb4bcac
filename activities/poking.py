"""Signal-with-start: how everybody makes a Proxy's workflow look."""

from datetime import timedelta

from temporalio.client import Client
from temporalio.common import WorkflowIDReusePolicy
from temporalio.service import RPCError, RPCStatusCode

from model.errors import PokeRefusedError, UnavailableError
from model.messages import Poke
from model.names import QUEUE_CONTROL, proxy_workflow_id
from model.proxy_state import ProxyState

_DEADLINE = timedelta(seconds=10)
_REFUSALS = (RPCStatusCode.INVALID_ARGUMENT, RPCStatusCode.PERMISSION_DENIED, RPCStatusCode.UNAUTHENTICATED)


async def poke_proxy(client: Client, poke: Poke) -> None:
    """Signal the workflow of a Proxy, and start it where there is none.

    Raises:
        UnavailableError: Temporal did not take it in time.
        PokeRefusedError: Temporal will never take it.
    """
    try:
        await client.start_workflow(
            "ProxyWorkflow",
            ProxyState(namespace=poke.namespace, name=poke.name),
            id=proxy_workflow_id(poke.namespace, poke.name),
            task_queue=QUEUE_CONTROL,
            start_signal="changed",
            start_signal_args=[poke],
            id_reuse_policy=WorkflowIDReusePolicy.ALLOW_DUPLICATE,
            memo={"namespace": poke.namespace, "name": poke.name},
            static_summary=f"Proxy {poke.namespace}/{poke.name}",
            rpc_timeout=_DEADLINE,
        )
    except RPCError as error:
        if error.status in _REFUSALS:
            raise PokeRefusedError(f"Temporal refuses a poke of {poke.namespace}/{poke.name}: {error}") from error
        raise UnavailableError(f"Temporal did not take a poke of {poke.namespace}/{poke.name}: {error}") from error
