"""Search attributes on a real server: registered where that is allowed, done without elsewhere."""

import asyncio
import logging
from datetime import timedelta
from typing import Any

import pytest
from temporalio import workflow
from temporalio.api.enums.v1 import EventType, IndexedValueType
from temporalio.api.operatorservice.v1 import (
    AddSearchAttributesRequest,
    ListSearchAttributesRequest,
    RemoveSearchAttributesRequest,
)
from temporalio.client import Client
from temporalio.service import RPCError
from temporalio.worker import Worker

from app.queue_workers import QueuePlan, _runner
from app.search_attributes import SearchAttributes
from model import search_attributes
from tests.e2e.polling import eventually

with workflow.unsafe.imports_passed_through():
    from model.proxy import ProxyStatus
    from model.reasons import Provisioned
    from model.status import Facts, build_status
    from workflows import proxy_search_attributes

KEYWORD = IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD
SIGNALED = EventType.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED
STUCK = "EgressProxyPhase = 'Failed' AND ExecutionStatus = 'Running'"
EXPECTED = dict.fromkeys(search_attributes.NAMES, KEYWORD)


def status_of(latched: bool) -> ProxyStatus:
    reason = Provisioned.PERMANENT_ERROR if latched else Provisioned.CREATING
    facts = Facts(managed=True, latched=latched, reason=reason)
    return build_status(ProxyStatus(), facts, "2026-01-01T00:00:00Z")


@workflow.defn(name="Shown")
class Shown:
    """Shows a status as a Proxy's workflow does, once per signal and once at the start."""

    def __init__(self) -> None:
        self.latched = False
        self.has_news = True
        self.renew = False

    @workflow.signal
    def set_latched(self, latched: bool) -> None:
        self.latched = latched
        self.has_news = True

    @workflow.signal
    def begin_anew(self) -> None:
        self.renew = True

    @workflow.run
    async def run(self, latched: bool) -> None:
        self.latched = latched
        while not self.renew:
            self.has_news = False
            proxy_search_attributes.show("box", status_of(self.latched))
            await workflow.wait_condition(lambda: self.renew or self.has_news)
        workflow.continue_as_new(self.latched)


@pytest.fixture(autouse=True)
def _quiet_logs(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "app.search_attributes")


def attributes_of(client: Client, **changes: Any) -> SearchAttributes:
    return SearchAttributes(client, **{"settle_seconds": 3.0, **changes})


def worker(client: Client) -> Worker:
    return Worker(client, task_queue="shown", workflows=[Shown], workflow_runner=_runner(QueuePlan()))


async def add(client: Client, names: list[str], kind: IndexedValueType.ValueType = KEYWORD) -> None:
    for name in names:
        request = AddSearchAttributesRequest(namespace=client.namespace, search_attributes={name: kind})
        await client.operator_service.add_search_attributes(request, timeout=timedelta(seconds=10))


async def registered(client: Client) -> dict[str, IndexedValueType.ValueType]:
    request = ListSearchAttributesRequest(namespace=client.namespace)
    answer = await client.operator_service.list_search_attributes(request, timeout=timedelta(seconds=10))
    return {name: kind for name, kind in answer.custom_attributes.items() if name.startswith("Egress")}


async def found(client: Client, query: str) -> list[str]:
    return sorted([execution.id async for execution in client.list_workflows(query)])


async def failed_tasks(client: Client, workflow_id: str) -> int:
    history = await client.get_workflow_handle(workflow_id).fetch_history()
    return sum(event.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED for event in history.events)


async def test_the_list_answers_which_are_stuck_and_why(temporal_client: Client) -> None:
    attributes = attributes_of(temporal_client)
    await attributes.register()
    assert attributes.are_known
    assert await registered(temporal_client) == EXPECTED
    async with worker(temporal_client):
        await temporal_client.start_workflow(Shown.run, False, id="fine", task_queue="shown")
        handle = await temporal_client.start_workflow(Shown.run, True, id="stuck", task_queue="shown")
        later = temporal_client.get_workflow_handle("stuck")
        await eventually(lambda: found(temporal_client, STUCK), lambda ids: ids == ["stuck"])
        query = "EgressProxyReason = 'PermanentError' AND EgressProxyProvider = 'box'"
        assert await found(temporal_client, query) == ["stuck"]
        assert await failed_tasks(temporal_client, "stuck") == 0
        # The same again adds nothing, nor does a new run, which knows what the former one showed.
        await handle.signal(Shown.set_latched, True)
        await handle.signal(Shown.begin_anew)

        async def later_run() -> bool:
            return (await later.describe()).run_id != handle.first_execution_run_id

        await eventually(later_run)
        await later.signal(Shown.set_latched, True)
        kinds = await eventually(lambda: _settled_events(temporal_client), lambda kinds: kinds.count(SIGNALED) == 1)
        assert EventType.EVENT_TYPE_UPSERT_WORKFLOW_SEARCH_ATTRIBUTES not in kinds
        await later.signal(Shown.set_latched, False)
        await eventually(lambda: found(temporal_client, STUCK), lambda ids: ids == [])


async def _settled_events(client: Client) -> list[int]:
    """Events of the present run, once no task of it is under way."""
    history = await client.get_workflow_handle("stuck").fetch_history()
    kinds = [event.event_type for event in history.events]
    return list(kinds) if kinds[-1] == EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED else []


async def test_many_workers_register_at_once_and_again(
    temporal_client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    every = [attributes_of(temporal_client) for _ in range(4)]
    await asyncio.gather(*(attributes.register() for attributes in every))
    await every[0].register()
    assert all(attributes.are_known for attributes in every)
    assert caplog.messages == []


async def test_what_is_there_in_part_is_completed(temporal_client: Client) -> None:
    await add(temporal_client, [search_attributes.PHASE, search_attributes.REASON])
    attributes = attributes_of(temporal_client)
    await attributes.register()
    assert attributes.are_known
    assert await registered(temporal_client) == EXPECTED


async def test_a_server_that_takes_no_more_is_done_without_and_told_once(
    temporal_client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    await add(temporal_client, [f"Taken{number}" for number in range(10)])
    attributes = attributes_of(temporal_client, effect_seconds=0.5)
    for _ in range(3):
        await attributes.register()
    assert not attributes.are_known
    (message,) = caplog.messages
    assert "going on without the search attributes EgressProxyPhase, " in message


async def test_a_name_that_is_taken_with_another_type_is_done_without(
    temporal_client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    await add(temporal_client, [search_attributes.PHASE], IndexedValueType.INDEXED_VALUE_TYPE_INT)
    attributes = attributes_of(temporal_client, effect_seconds=0.5)
    await attributes.register()
    assert not attributes.are_known
    assert len(caplog.messages) == 1


async def test_attributes_that_somebody_removes_come_back_and_workflows_go_on(temporal_client: Client) -> None:
    attributes = attributes_of(temporal_client, look_seconds=0.5)
    looking = asyncio.create_task(attributes.run())
    try:

        async def known() -> bool:
            return attributes.are_known

        await eventually(known)
        async with worker(temporal_client):
            handle = await temporal_client.start_workflow(Shown.run, False, id="one", task_queue="shown")
            await eventually(lambda: found(temporal_client, "EgressProxyPhase = 'Provisioning'"), bool)
            request = RemoveSearchAttributesRequest(
                namespace=temporal_client.namespace, search_attributes=list(search_attributes.NAMES)
            )
            await temporal_client.operator_service.remove_search_attributes(request, timeout=timedelta(seconds=10))
            await handle.signal(Shown.set_latched, True)
            await eventually(lambda: found_anyhow(temporal_client, "EgressProxyPhase = 'Failed'"), bool, within=60)
    finally:
        looking.cancel()
        await asyncio.gather(looking, return_exceptions=True)


async def found_anyhow(client: Client, query: str) -> list[str]:
    """As ``found``; nothing while the server does not know the names."""
    try:
        return await found(client, query)
    except RPCError:
        return []


async def test_a_server_that_is_gone_changes_nothing_that_is_known(own_temporal: Any) -> None:
    server = await own_temporal()
    client = await Client.connect(server.address)
    attributes = attributes_of(client)
    await attributes.register()
    assert attributes.are_known
    await server.stop()
    await attributes.register()
    assert attributes.are_known
