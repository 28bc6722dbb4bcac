"""Makes an object's status and the lease broker say what is so, each only when it changed."""

import asyncio
import dataclasses
from datetime import timedelta

from temporalio import workflow
from temporalio.exceptions import ActivityError

with workflow.unsafe.imports_passed_through():
    from model import messages, proxy_facts
    from model.events import events_of
    from model.proxy import Proxy, ProxyStatus
    from model.proxy_state import ProxyState
    from model.reasons import Provisioned
    from model.status import Facts, build_status, same_status
    from workflows import activity_calls, proxy_search_attributes

_PATIENCE = timedelta(seconds=20)
_REQUIRED_PATIENCE = timedelta(minutes=5)


class ObjectChanged(Exception):  # noqa: N818 - no failure: the object moved on and is read again
    """The object is not the one the step was decided for."""


class ObjectDisputed(ObjectChanged):
    """A worker says so. Where a reading finds the object unchanged nevertheless, it must not be tried in a hot loop."""

    def __init__(self, message: str = "") -> None:
        super().__init__(
            message
            or "a worker finds another object of this name than the one that was read; "
            "do all workers use the same cluster?"
        )


class Publisher:
    """Tells what changed about one Proxy.

    Attributes:
        status_is_pending: Whether the last status could not be written.
        shows_search_attributes: Whether Temporal knows the search attributes.
    """

    def __init__(self, state: ProxyState) -> None:
        self._state = state
        self.status_is_pending = False
        self.shows_search_attributes = False

    async def publish(
        self, proxy: Proxy, reason: Provisioned, message: str, *, required: bool, evaluated: bool
    ) -> None:
        """Write the status and tell the broker, side by side, so that an outage of one holds up only itself.

        Args:
            proxy: The object as read last.
            reason: For the Provisioned condition.
            message: For the same.
            required: The status must stand before the caller touches an instance; otherwise a status that could not
                be written is left pending.
            evaluated: Whether a step was decided for this generation.

        Raises:
            ObjectChanged: The object is gone or was recreated.
            ActivityError: The status could not be written, and it was required.
        """
        state = self._state
        patience = _REQUIRED_PATIENCE if required else _PATIENCE
        facts = proxy_facts.facts(state, proxy, reason, message, evaluated=evaluated)
        status = build_status(state.status, facts, proxy_facts.rfc3339(workflow.now()))
        if evaluated:
            state.evaluated_generation = proxy.generation
        view = proxy_facts.leasing_view(state, proxy, status)
        told, written = await asyncio.gather(
            self._tell(view), self._write(state.uid, state.status, status, patience), return_exceptions=True
        )
        if state.not_taken_on != facts.not_taken_on and not isinstance(written, BaseException):
            facts = dataclasses.replace(facts, not_taken_on=state.not_taken_on)
            status = build_status(state.status, facts, proxy_facts.rfc3339(workflow.now()))
            (written,) = await asyncio.gather(
                self._write(state.uid, state.status, status, patience), return_exceptions=True
            )
        if self.shows_search_attributes:
            proxy_search_attributes.show(proxy.spec.provider, status)
        if isinstance(told, BaseException):
            raise told
        self.status_is_pending = isinstance(written, ActivityError)
        if isinstance(written, BaseException) and (required or not self.status_is_pending):
            raise written

    async def explain_wait(self, proxy: Proxy, message: str) -> None:
        """Say on an object that is not ours to work on yet why it has to wait.

        Raises:
            ObjectChanged: The object is gone or was recreated.
            ActivityError: The status could not be written.
        """
        facts = Facts(managed=proxy.spec.managed, reason=Provisioned.REPLACING, message=message)
        status = build_status(proxy.status, facts, proxy_facts.rfc3339(workflow.now()))
        await self._write(proxy.uid, proxy.status, status, _PATIENCE)

    async def tell_gone(self, uid: str) -> None:
        """Tell the broker that the object with this uid is gone."""
        await self._send(self._reference(uid), None)
        self._state.told = None

    async def _write(self, uid: str, previous: ProxyStatus, status: ProxyStatus, patience: timedelta) -> None:
        state = self._state
        if same_status(status, previous):
            return
        write = messages.StatusWrite(reference=self._reference(uid), status=status, events=events_of(previous, status))
        if not await activity_calls.write_status(write, patience):
            raise ObjectDisputed
        if uid == state.uid:
            state.status = status

    async def _tell(self, view: messages.LeasingView) -> None:
        state = self._state
        if view == state.told:
            return
        state.not_taken_on = await self._send(self._reference(state.uid), view)
        state.told = None if state.not_taken_on else view

    async def _send(self, reference: messages.ProxyReference, view: messages.LeasingView | None) -> str:
        """Tell one transition, above anything newer that the broker has; return why it was refused, or ""."""
        state = self._state
        while True:
            state.order += 1
            tell = messages.BrokerTell(reference=reference, order=(state.chain_start, state.order), view=view)
            answer = await activity_calls.tell_broker(tell)
            if answer.accepted or answer.refusal:
                return answer.refusal
            # Another chain of this workflow told something newer; ours is the one that lives.
            state.chain_start, state.order = answer.order

    def _reference(self, uid: str) -> messages.ProxyReference:
        state = self._state
        return messages.ProxyReference(namespace=state.namespace, name=state.name, uid=uid)
