"""The search attributes of Proxies' workflows: registered where that is allowed, done without elsewhere."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import timedelta

from temporalio.api.enums.v1 import IndexedValueType
from temporalio.api.operatorservice.v1 import AddSearchAttributesRequest
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from activities.poking import poke_proxy
from model import search_attributes
from model.errors import EgressProxiesError, clean_message
from model.messages import Poke
from watcher.workflows import running_workflows

logger = logging.getLogger(__name__)

_DEADLINE = timedelta(seconds=5)
_EFFECT_SECONDS = 10.0
"""A server takes what was added into use within seconds."""
_SETTLE_SECONDS = 12.0
"""Parts of a server read its namespaces every 10 s; one that has not yet would fail a task that sets something new."""
_LOOK_SECONDS = 60.0
# Nobody's value: the question is only whether the server knows the names, with their type.
_QUERY = " AND ".join(f"{name} = '-'" for name in search_attributes.NAMES)


async def poke_unlisted(client: Client) -> None:
    """Have every Proxy's workflow that rests without search attributes look at its object, which sets them.

    Raises:
        UnavailableError: Temporal did not answer in time.
        PokeRefusedError: Temporal refused a poke.
    """
    for namespace, name in sorted(await running_workflows(client, f"{search_attributes.PHASE} IS NULL")):
        await poke_proxy(client, Poke(namespace=namespace, name=name))


async def _nothing() -> None:
    """What follows when nobody asked for more."""


class SearchAttributes:
    """Whether a Temporal namespace has our search attributes; those that are missing are added.

    Args:
        client: Of that namespace.
        effect_seconds: How long to wait until what was added is in use.
        settle_seconds: How long to wait from then on, until it is in use everywhere.
        look_seconds: Between two looks of ``run``.
        on_known: What follows once they may be set; tried again until it succeeds.
    """

    def __init__(
        self,
        client: Client,
        *,
        effect_seconds: float = _EFFECT_SECONDS,
        settle_seconds: float = _SETTLE_SECONDS,
        look_seconds: float = _LOOK_SECONDS,
        on_known: Callable[[], Awaitable[None]] = _nothing,
    ) -> None:
        self._client = client
        self._on_known = on_known
        self._settle_seconds = settle_seconds
        self._effect_seconds = effect_seconds
        self._look_seconds = look_seconds
        self._told = ""
        self._are_known = False

    @property
    def are_known(self) -> bool:
        """Whether they may be set, as of the last look."""
        return self._are_known

    async def register(self) -> None:
        """Look, and add what is missing. Whatever the server refuses is done without, and told once."""
        try:
            known = await self._look()
            if not known:
                await self._add()
                known = await self._wait_until_known()
        except RPCError as error:
            # A server that does not answer proves nothing; one that refuses does not have them.
            if error.status not in (RPCStatusCode.UNAVAILABLE, RPCStatusCode.DEADLINE_EXCEEDED):
                self._are_known = False
            self._tell(str(error))
            return
        self._are_known = known
        if known:
            self._told = ""
        else:
            self._tell("the server did not take them into use")

    async def run(self) -> None:
        """Look for ever: attributes that somebody removes would fail the tasks of every workflow that sets them."""
        is_followed = False
        while True:
            await self.register()
            is_followed = self._are_known and (is_followed or await self._follow())
            await asyncio.sleep(self._look_seconds)

    async def _follow(self) -> bool:
        try:
            await self._on_known()
        except EgressProxiesError as error:
            logger.warning("workflows without search attributes could not be poked yet: %s", error)
            return False
        return True

    async def _wait_until_known(self) -> bool:
        deadline = asyncio.get_running_loop().time() + self._effect_seconds
        while not await self._look():
            if asyncio.get_running_loop().time() > deadline:
                return False
            await asyncio.sleep(0.2)
        await asyncio.sleep(self._settle_seconds)
        return True

    async def _look(self) -> bool:
        try:
            await self._client.count_workflows(_QUERY, rpc_timeout=_DEADLINE)
        except RPCError as error:
            if error.status is RPCStatusCode.INVALID_ARGUMENT:
                return False
            raise
        return True

    async def _add(self) -> None:
        """Add one by one: a server refuses all of a request that names one which is there."""
        for name in search_attributes.NAMES:
            request = AddSearchAttributesRequest(
                namespace=self._client.namespace,
                search_attributes={name: IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD},
            )
            try:
                await self._client.operator_service.add_search_attributes(request, timeout=_DEADLINE)
            except RPCError as error:
                if error.status is not RPCStatusCode.ALREADY_EXISTS:
                    raise

    def _tell(self, why: str) -> None:
        text = clean_message(why)
        if text == self._told:
            return
        self._told = text
        names = ", ".join(search_attributes.NAMES)
        logger.warning("going on without the search attributes %s: %s", names, text)
