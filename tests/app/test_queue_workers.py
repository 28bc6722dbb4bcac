"""Worker deployment versions: who gets the work, and who never takes part."""

import contextlib
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest
from temporalio import activity, workflow
from temporalio.api.deployment.v1 import WorkerDeploymentVersion as VersionMessage
from temporalio.api.workflowservice.v1 import (
    DescribeWorkerDeploymentRequest,
    SetWorkerDeploymentCurrentVersionRequest,
)
from temporalio.client import Client, WorkflowHandle
from temporalio.common import WorkerDeploymentVersion
from temporalio.service import RPCError, RPCStatusCode

from app.queue_workers import QueuePlan, QueueWorkers, deployment_version
from app.settings import DeploymentSettings
from model.errors import ConfigurationError
from tests.e2e.polling import eventually

CONTROL, EDGE = "control", "edge"
FIRST, SECOND = (WorkerDeploymentVersion("egress", build) for build in ("v1", "v2"))


@activity.defn
async def at_the_edge() -> str:
    return "done at the edge"


class Named:
    """An activity that tells whose worker ran it."""

    def __init__(self, name: str) -> None:
        self._name = name

    @activity.defn
    async def who(self) -> str:
        return self._name


@workflow.defn(name="Long", sandboxed=False)
class Long:
    """Asks both queues at each signal, until it has been told to end."""

    def __init__(self) -> None:
        self.asked = 0
        self.answers: list[str] = []

    @workflow.signal
    def ask(self) -> None:
        self.asked += 1

    @workflow.query
    def told(self) -> list[str]:
        return self.answers

    @workflow.run
    async def run(self) -> None:
        while True:
            await workflow.wait_condition(lambda: len(self.answers) < self.asked)
            limit = timedelta(seconds=20)
            edge = await workflow.execute_activity(at_the_edge, task_queue=EDGE, start_to_close_timeout=limit)
            here = await workflow.execute_activity("who", result_type=str, start_to_close_timeout=limit)
            self.answers.append(f"{edge}, {here}")


@contextlib.asynccontextmanager
async def serving(client: Client, name: str, version: WorkerDeploymentVersion | None) -> AsyncIterator[None]:
    """Serve both queues as one process of that version does, over a connection of its own."""
    connection = await Client.connect(client.service_client.config.target_host, namespace=client.namespace)
    workers = QueueWorkers(connection, version)
    workers.serve(
        {
            CONTROL: QueuePlan(workflows=[Long], activities=[Named(name).who], cached_workflows=10, versioned=True),
            EDGE: QueuePlan(activities=[at_the_edge]),
        }
    )
    try:
        yield
    finally:
        await workers.shut_down()


async def set_current(client: Client, version: WorkerDeploymentVersion) -> None:
    """What ``temporal worker deployment set-current-version`` does, once the version has registered."""
    request = SetWorkerDeploymentCurrentVersionRequest(
        namespace=client.namespace,
        deployment_name=version.deployment_name,
        build_id=version.build_id,
        identity="test",
    )

    async def is_set() -> bool:
        try:
            await client.workflow_service.set_worker_deployment_current_version(request)
        except RPCError as error:
            if error.status not in (RPCStatusCode.NOT_FOUND, RPCStatusCode.FAILED_PRECONDITION):
                raise
            return False
        return True

    await eventually(is_set)


async def versions_of(client: Client) -> set[str]:
    request = DescribeWorkerDeploymentRequest(namespace=client.namespace, deployment_name="egress")
    answer = await client.workflow_service.describe_worker_deployment(request)
    return {summary.deployment_version.build_id for summary in answer.worker_deployment_info.version_summaries}


async def ask(handle: WorkflowHandle[Long, None], number: int) -> str:
    await handle.signal(Long.ask)

    async def told() -> list[str]:
        return await handle.query(Long.told)

    return (await eventually(told, lambda answers: len(answers) >= number))[number - 1]


async def version_of(handle: WorkflowHandle[Long, None]) -> str:
    info = (await handle.describe()).raw_description.workflow_execution_info.versioning_info
    version: VersionMessage = info.deployment_version
    return version.build_id


async def test_a_long_workflow_moves_to_the_version_that_is_set_and_edge_queues_take_no_part(
    temporal_client: Client,
) -> None:
    async with serving(temporal_client, "first", FIRST):
        await set_current(temporal_client, FIRST)
        handle = await temporal_client.start_workflow(Long.run, id="long", task_queue=CONTROL)
        assert await ask(handle, 1) == "done at the edge, first"
        assert await version_of(handle) == "v1"
        async with serving(temporal_client, "second", SECOND):
            await set_current(temporal_client, SECOND)

            async def moved() -> str:
                return await ask(handle, len(await handle.query(Long.told)) + 1)

            await eventually(moved, lambda answer: answer == "done at the edge, second")
            assert await version_of(handle) == "v2"
            assert await versions_of(temporal_client) == {"v1", "v2"}


async def test_without_a_version_work_is_done_at_once_and_no_deployment_is_made(temporal_client: Client) -> None:
    async with serving(temporal_client, "plain", None):
        handle = await temporal_client.start_workflow(Long.run, id="long", task_queue=CONTROL)
        assert await ask(handle, 1) == "done at the edge, plain"
        assert await version_of(handle) == ""
        with pytest.raises(RPCError) as refused:
            await versions_of(temporal_client)
        assert refused.value.status is RPCStatusCode.NOT_FOUND


async def test_a_workflow_of_unversioned_workers_moves_to_the_first_version_that_is_set(
    temporal_client: Client,
) -> None:
    async with serving(temporal_client, "plain", None):
        handle = await temporal_client.start_workflow(Long.run, id="long", task_queue=CONTROL)
        assert await ask(handle, 1) == "done at the edge, plain"
    async with serving(temporal_client, "first", FIRST):
        await set_current(temporal_client, FIRST)
        assert await ask(handle, 2) == "done at the edge, first"
        assert await version_of(handle) == "v1"


@pytest.mark.parametrize(
    ("name", "build_id", "words"),
    [
        ("egress", "", "--build-id: "),
        ("", "v1", "--deployment-name: "),
        ("a.b", "v1", "--deployment-name: "),
        ("a" * 64, "v1", "--deployment-name: "),
        ("egress", "v 1", "--build-id: "),
        ("egress", "-v1", "--build-id: "),
    ],
)
def test_a_deployment_that_cannot_be_used_is_told_with_its_flag(name: str, build_id: str, words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        DeploymentSettings(name=name, build_id=build_id).check()


def test_a_deployment_is_a_name_and_a_build_or_nothing() -> None:
    for settings in (DeploymentSettings(), DeploymentSettings(name="egress", build_id="2026.01.1-a1b2+x")):
        settings.check()
    assert deployment_version(DeploymentSettings()) is None
    assert deployment_version(DeploymentSettings(name="egress", build_id="v1")) == FIRST
