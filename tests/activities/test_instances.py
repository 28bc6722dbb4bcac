"""Creating and abandoning, over a scripted provider; where Temporal counts, on a real server."""

import asyncio
import dataclasses
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest
from temporalio import workflow
from temporalio.client import Client, WorkflowFailureError
from temporalio.common import RetryPolicy
from temporalio.exceptions import ActivityError, ApplicationError
from temporalio.testing import ActivityEnvironment
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from activities import instances
from activities.instances import InstanceActivities
from cluster.proxies import ProxyStore
from cluster.secrets import CloudInitReader, ResolvedCloudInit
from model import messages, names
from model.errors import NoTurnError, PermanentError, QuotaExceededError, TransientError
from model.instance import Instance, InstanceState
from model.proxy import Proxy, ProxySpec
from providers.contract import CreateRequest, MarkEditor, Provider
from providers.registry import ProviderRegistry
from tests.providers.scripted import ScriptedProvider, instance

OURS = "ours"
REFERENCE = messages.ProxyReference(namespace="ns", name="px", uid="uid")
NAME = names.instance_name("uid")
CREATE = messages.CreateInstance(reference=REFERENCE, provider="box")


class Editable(ScriptedProvider, MarkEditor):
    """Knows its instances by id, and lets marks be changed."""

    def __init__(self) -> None:
        super().__init__()
        self.outcomes: list[Exception] = []
        self.creates = 0

    async def create(self, request: CreateRequest) -> Instance:
        self.creates += 1
        if self.outcomes:
            raise self.outcomes.pop(0)
        return await super().create(request)

    async def write_marks(self, provider_id: str, incarnation: str, installation: str, spec_hash: str) -> None:
        found = self.instances[provider_id]
        self.instances[provider_id] = dataclasses.replace(found, installation=installation, spec_hash=spec_hash)

    async def remove_marks(self, provider_id: str, incarnation: str) -> None:
        assert self.instances[provider_id].incarnation == incarnation
        self.instances[provider_id] = dataclasses.replace(self.instances[provider_id], uid="", installation="")


class World:
    """The object and the provider that the activities see."""

    def __init__(self, provider: ScriptedProvider | None = None) -> None:
        self.provider = provider or Editable()
        spec = ProxySpec(mode="Managed", provider="box")
        self.proxy: Proxy | None = Proxy(namespace="ns", name="px", uid="uid", generation=1, spec=spec)
        self.activities = InstanceActivities(
            cast("ProviderRegistry", self), cast("ProxyStore", self), cast("CloudInitReader", self), OURS
        )

    async def get(self, *arguments: str) -> Proxy | Provider | None:
        """The registry's ``get`` with one argument, the store's with two."""
        return self.provider if len(arguments) == 1 else self.proxy

    async def entry(self, _name: str) -> None:
        return None

    async def read(self, _proxy: Proxy) -> ResolvedCloudInit:
        return ResolvedCloudInit()

    def change(self, **changes: Any) -> None:
        assert self.proxy is not None
        self.proxy = dataclasses.replace(self.proxy, **changes)

    def put(self, **changes: Any) -> Instance:
        one = dataclasses.replace(instance(NAME, installation=OURS), **changes)
        self.provider.instances[NAME] = one
        return one


@pytest.fixture
def world() -> World:
    return World()


async def run(call: Callable[..., Any], argument: object) -> Any:
    return await ActivityEnvironment().run(call, argument)


# ---------------------------------------------------------------------- marks


async def test_a_look_marks_what_the_reference_made(world: World) -> None:
    world.put(installation="", spec_hash="")
    answer = await run(world.activities.look_for_instance, messages.InstanceQuery(provider="box", uid="uid"))
    assert (answer.instance.installation, answer.instance.spec_hash) == (OURS, "")
    assert world.provider.instances[NAME] == answer.instance


@pytest.mark.parametrize(("annotation", "mark"), [("v1-known", "v1-known"), ("0123abcd", ""), ("", "")])
async def test_an_adopting_create_marks_with_the_hash_only_where_it_is_known(
    world: World, annotation: str, mark: str
) -> None:
    world.put(installation="", spec_hash="")
    world.change(annotations={names.ANNOTATION_SPEC_HASH: annotation})
    answer = await run(world.activities.create_instance, CREATE)
    assert (answer.instance.installation, answer.instance.spec_hash) == (OURS, mark)
    assert world.provider.instances[NAME] == answer.instance


async def test_where_marks_cannot_be_changed_the_instance_is_adopted_as_it_is() -> None:
    world = World(ScriptedProvider())
    bare = world.put(installation="", spec_hash="")
    answer = await run(world.activities.look_for_instance, messages.InstanceQuery(provider="box", uid="uid"))
    assert answer.instance == bare


@pytest.mark.parametrize("foreign", [{"uid": "other"}, {"installation": "theirs"}])
async def test_nothing_of_somebody_else_is_marked(world: World, foreign: dict[str, str]) -> None:
    before = world.put(**foreign)
    with pytest.raises(ApplicationError) as failed:
        await run(world.activities.look_for_instance, messages.InstanceQuery(provider="box", uid="uid"))
    assert failed.value.type == "NameTakenError"
    assert world.provider.instances[NAME] == before


# ---------------------------------------------------------------------- unmarking


def abandon(provider_id: str = NAME, incarnation: str = "1") -> messages.UnmarkInstance:
    return messages.UnmarkInstance(
        reference=REFERENCE, provider="box", provider_id=provider_id, incarnation=incarnation
    )


ABANDONED = {"deleting": True, "annotations": {names.ANNOTATION_SKIP_CLEANUP: "true"}}


@pytest.mark.parametrize("provider_id", [NAME, ""])
@pytest.mark.parametrize("incarnation", ["1", ""])
async def test_the_marks_of_an_abandoned_instance_are_taken_off(
    world: World, provider_id: str, incarnation: str
) -> None:
    world.put()
    world.change(**ABANDONED)
    world.provider.instances[""] = world.provider.instances[NAME]
    assert await run(world.activities.unmark_instance, abandon(provider_id or NAME, incarnation)) is True
    assert world.provider.instances[NAME].installation == ""


async def test_the_marks_come_off_when_the_object_is_gone_or_another_one(world: World) -> None:
    world.put()
    world.change(uid="successor")
    assert await run(world.activities.unmark_instance, abandon()) is True
    world.put()
    world.proxy = None
    assert await run(world.activities.unmark_instance, abandon()) is True
    assert world.provider.instances[NAME].uid == ""


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"deleting": True},
        {"annotations": {names.ANNOTATION_SKIP_CLEANUP: "true"}},
        {"deleting": True, "annotations": {names.ANNOTATION_SKIP_CLEANUP: "false"}},
    ],
)
async def test_what_the_object_still_wants_keeps_its_marks(world: World, changes: dict[str, Any]) -> None:
    before = world.put()
    world.change(**changes)
    assert await run(world.activities.unmark_instance, abandon()) is False
    assert world.provider.instances[NAME] == before


@pytest.mark.parametrize("changes", [{"incarnation": "2"}, {"uid": "other"}, {"installation": "theirs"}])
async def test_another_incarnation_and_a_strangers_keep_their_marks(world: World, changes: dict[str, str]) -> None:
    before = world.put(**changes)
    world.change(**ABANDONED)
    assert await run(world.activities.unmark_instance, abandon()) is False
    assert world.provider.instances[NAME] == before


async def test_a_backend_that_cannot_says_so() -> None:
    world = World(ScriptedProvider())
    before = world.put()
    world.change(**ABANDONED)
    assert await run(world.activities.unmark_instance, abandon()) is False
    assert world.provider.instances[NAME] == before


# ---------------------------------------------------------------------- waiting


@pytest.mark.parametrize(
    ("known", "said", "waited", "is_news"),
    [
        ("", "no node has room", timedelta(seconds=20), True),
        ("no node has room", "no node has room", timedelta(hours=1), False),
        ("no node has room", "pulling the image", timedelta(seconds=299), False),
        ("no node has room", "pulling the image", timedelta(seconds=301), True),
        ("no node has room", "", timedelta(seconds=301), True),
        ("", "", timedelta(hours=1), False),
    ],
)
async def test_a_wait_ends_with_news_of_why_it_is_long(
    world: World, monkeypatch: pytest.MonkeyPatch, known: str, said: str, waited: timedelta, is_news: bool
) -> None:
    monkeypatch.setattr(instances, "_AWAIT_QUICKLY_SECONDS", 0.0)
    world.put(state=InstanceState.COMING, ip="", message=said)
    environment = ActivityEnvironment()
    environment.info = dataclasses.replace(environment.info, scheduled_time=datetime.now(UTC) - waited)
    query = messages.InstanceQuery(provider="box", uid="uid", provider_id=NAME, known_message=known)
    if not is_news:
        with pytest.raises(ApplicationError, match="still coming"):
            await environment.run(world.activities.await_instance, query)
        return
    answer = await environment.run(world.activities.await_instance, query)
    assert answer.instance is not None
    assert (answer.instance.state, answer.instance.message) == (InstanceState.COMING, said)


async def test_what_a_provider_says_is_cleaned_before_it_enters_a_history(world: World) -> None:
    world.put(message="pulling from https://user:pa55word@registry.example.com")
    query = messages.InstanceQuery(provider="box", uid="uid", provider_id=NAME)
    answer = await run(world.activities.look_for_instance, query)
    assert answer.instance.message == "pulling from https://***@registry.example.com"


# ---------------------------------------------------------------------- tries


@workflow.defn(name="Creating", sandboxed=False)
class Creating:
    """Creates as a Proxy's workflow does, with quicker retries."""

    @workflow.run
    async def run(self, create: messages.CreateInstance) -> list[Any]:
        try:
            await workflow.execute_activity(
                "create_instance",
                create,
                start_to_close_timeout=timedelta(seconds=30),
                heartbeat_timeout=timedelta(seconds=2),
                retry_policy=RetryPolicy(
                    initial_interval=timedelta(milliseconds=50), maximum_interval=timedelta(milliseconds=50)
                ),
            )
        except ActivityError as error:
            cause = error.cause
            assert isinstance(cause, ApplicationError)
            return [cause.type, *cause.details]
        return ["ok"]


@asynccontextmanager
async def serving(client: Client, world: World) -> AsyncIterator[str]:
    queue = f"queue-{uuid.uuid4().hex[:8]}"
    worker = Worker(
        client,
        task_queue=queue,
        workflows=[Creating],
        activities=[world.activities.create_instance],
        workflow_runner=UnsandboxedWorkflowRunner(),
        max_concurrent_activities=1,
    )
    async with worker:
        yield queue


async def outcome(client: Client, queue: str) -> list[Any]:
    try:
        result: list[Any] = await client.execute_workflow(
            Creating.run, CREATE, id=f"create-{uuid.uuid4().hex[:8]}", task_queue=queue
        )
    except WorkflowFailureError as error:
        raise AssertionError(f"the workflow failed: {error.cause}") from error
    return result


def no_turn(times: int) -> list[Exception]:
    return [NoTurnError("2 creates at a time (maxConcurrentCreates), 0 wait before it", 0.05) for _ in range(times)]


@pytest.mark.parametrize(
    ("outcomes", "ends", "creates"),
    [
        (no_turn(8), ["ok"], 9),
        ([TransientError("x")] * 2, ["ok"], 3),
        ([TransientError("x")] * 9, ["TransientError", "", 3], 3),
        ([RuntimeError("a defect")] * 9, ["RuntimeError", "", 3], 3),
        ([*no_turn(5), QuotaExceededError("x")], ["QuotaExceededError", "", 1], 6),
        ([*no_turn(2), TransientError("x"), *no_turn(2), PermanentError("x")], ["PermanentError", "", 2], 6),
        ([TransientError("x"), *no_turn(4), *[TransientError("x")] * 9], ["TransientError", "", 3], 7),
        ([PermanentError("x")], ["PermanentError", "", 1], 1),
    ],
)
async def test_waiting_for_a_turn_is_no_try_and_three_tries_are_enough(
    temporal_client: Client, world: World, outcomes: list[Exception], ends: list[Any], creates: int
) -> None:
    provider = world.provider
    assert isinstance(provider, Editable)
    provider.outcomes = list(outcomes)
    async with serving(temporal_client, world) as queue:
        assert await outcome(temporal_client, queue) == ends
    assert provider.creates == creates


async def test_an_attempt_that_was_cut_off_counts(temporal_client: Client, world: World) -> None:
    """Its worker is gone without a word; a refusal afterwards is not "certainly nothing was made"."""
    provider = world.provider
    assert isinstance(provider, Editable)
    provider.outcomes = no_turn(3)
    cut_off = asyncio.Event()
    original = provider.create

    async def create(request: CreateRequest) -> Instance:
        if provider.creates == 3 and not cut_off.is_set():
            cut_off.set()
            await asyncio.to_thread(lambda: None)
            raise asyncio.CancelledError
        if provider.creates == 3:
            raise PermanentError("x")
        return await original(request)

    provider.create = create  # type: ignore[method-assign]
    async with serving(temporal_client, world) as queue:
        assert await outcome(temporal_client, queue) == ["PermanentError", "", 2]
    assert cut_off.is_set()


async def test_a_create_that_waits_for_its_turn_holds_no_slot(temporal_client: Client, world: World) -> None:
    """The queue has one slot; while one create waits, another goes through."""
    provider = world.provider
    assert isinstance(provider, Editable)
    original = provider.create
    turned_away = asyncio.Event()

    async def create(request: CreateRequest) -> Instance:
        if not turned_away.is_set():
            turned_away.set()
            raise NoTurnError("no turn", 3.0)
        return await original(request)

    provider.create = create  # type: ignore[method-assign]
    async with serving(temporal_client, world) as queue:
        waiting = asyncio.create_task(outcome(temporal_client, queue))
        await turned_away.wait()
        assert await outcome(temporal_client, queue) == ["ok"]
        assert not waiting.done()
        assert await waiting == ["ok"]
