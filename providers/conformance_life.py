"""The rules of the conformance suite about an instance's life: create, find, get, list, delete."""

import asyncio
import time
from datetime import UTC, datetime, timedelta

import pytest

from model.errors import NameTakenError, NotFoundError, PermanentError
from model.instance import InstanceState
from providers.conformance_harness import OURS, THEIRS, ProviderHarness, Stranger
from providers.conformance_steps import created, outcome_of, removed, retried, running

_STRANGERS = (Stranger.OTHER_UID, Stranger.OTHER_INSTALLATION, Stranger.UNMARKED)


class LifeRules:
    """What holds while the backend does as it is told."""

    async def test_create_is_idempotent_by_name(self, harness: ProviderHarness) -> None:
        """A repeated create, by whichever worker, is the same instance."""
        request = harness.request()
        first = await harness.provider().create(request)
        second = await harness.provider().create(request)
        assert (second.provider_id, second.incarnation) == (first.provider_id, first.incarnation)
        assert await harness.instances_of(request.name) == 1

    async def test_creates_of_one_name_at_the_same_time_make_one_instance(self, harness: ProviderHarness) -> None:
        """Two workers and two calls in each: one instance, and nobody is told of another."""
        request = harness.request()
        providers = [harness.provider(), harness.provider()] * 2
        outcomes = await asyncio.gather(
            *(outcome_of(provider.create(request), harness.patience_seconds) for provider in providers)
        )
        assert {outcome.word for outcome in outcomes} <= {"ok", "TransientError"}, outcomes
        final = await retried(harness, lambda: providers[0].create(request))
        assert {outcome.value.incarnation for outcome in outcomes if outcome.word == "ok"} <= {final.incarnation}
        assert await harness.instances_of(request.name) == 1

    async def test_creates_of_other_names_make_other_instances(self, harness: ProviderHarness) -> None:
        """Ids and incarnations tell instances apart."""
        provider = harness.provider()
        requests = [harness.request(f"uid-{letter}") for letter in "abc"]
        instances = await asyncio.gather(*(provider.create(request) for request in requests))
        assert len({instance.provider_id for instance in instances}) == len(requests)
        assert len({instance.incarnation for instance in instances}) == len(requests)

    async def test_a_created_instance_carries_all_marks_and_gets_to_run(self, harness: ProviderHarness) -> None:
        """What create returns is what another worker reads back."""
        request = harness.request()
        made = await harness.provider().create(request)
        other = harness.provider()
        at_once = await other.get(made.provider_id)
        assert at_once.state is not InstanceState.STOPPED
        seen = await running(harness, other, made)
        for instance in (made, at_once, seen):
            marks = (instance.name, instance.uid, instance.installation, instance.spec_hash)
            assert marks == (request.name, request.uid, OURS, request.spec_hash)
            assert instance.created_at == made.created_at
        assert made.created_at.tzinfo is not None
        assert abs(datetime.now(UTC) - made.created_at) < timedelta(hours=1)

    async def test_an_adopted_instance_returns_its_own_marks(self, harness: ProviderHarness) -> None:
        """An edit between two attempts must not make the old instance look new."""
        provider = harness.provider()
        first = await provider.create(harness.request(spec_hash="v1-a"))
        adopted = await harness.provider().create(harness.request(spec_hash="v1-b"))
        assert (adopted.incarnation, adopted.spec_hash) == (first.incarnation, "v1-a")

    @pytest.mark.parametrize("stranger", _STRANGERS)
    async def test_a_strangers_instance_is_neither_adopted_nor_touched(
        self, harness: ProviderHarness, stranger: Stranger
    ) -> None:
        """Its name is taken, and it lives on."""
        provider = harness.provider()
        instance = await created(harness, provider)
        await harness.make_strangers(instance, stranger)
        before = await retried(harness, lambda: provider.get(instance.provider_id))
        with pytest.raises(NameTakenError):
            await retried(harness, lambda: provider.create(harness.request()))
        after = await provider.get(instance.provider_id)
        assert (after.incarnation, after.uid, after.installation) == (
            before.incarnation,
            before.uid,
            before.installation,
        )
        assert await harness.instances_of(instance.name) == 1

    async def test_an_instance_of_the_reference_is_adopted_and_marked(self, harness: ProviderHarness) -> None:
        """Our uid without an installation is ours."""
        provider = harness.provider()
        instance = await created(harness, provider)
        await harness.make_strangers(instance, Stranger.OF_THE_REFERENCE)
        adopted = await provider.create(harness.request())
        assert (adopted.incarnation, adopted.spec_hash) == (instance.incarnation, "")
        expected = OURS if provider.mark_editor is not None else ""
        assert (await harness.provider().get(instance.provider_id)).installation == expected

    async def test_a_request_that_can_never_be_met_names_the_field_and_makes_nothing(
        self, harness: ProviderHarness
    ) -> None:
        """The error is all that a user gets to see."""
        impossible = harness.impossible_requests()
        assert impossible
        for request, word in impossible:
            with pytest.raises(PermanentError) as refused:
                await harness.provider().create(request)
            assert word in str(refused.value)
            assert await harness.instances_of(request.name) == 0
            assert list(await harness.leftovers(request.name)) == []

    async def test_find_sees_what_any_worker_made_and_nothing_else(self, harness: ProviderHarness) -> None:
        """None means that there is none."""
        instance = await harness.provider().create(harness.request())
        other = harness.provider()
        found = await other.find(instance.name)
        assert found is not None
        assert (found.provider_id, found.incarnation) == (instance.provider_id, instance.incarnation)
        assert await other.find(harness.request("uid-b").name) is None

    async def test_an_instance_that_stopped_stays_until_it_is_deleted(self, harness: ProviderHarness) -> None:
        """It keeps its name, and its successor is another incarnation."""
        provider = harness.provider()
        instance = await created(harness, provider)
        await harness.stop(instance)
        deadline = time.monotonic() + harness.patience_seconds
        while (seen := await provider.get(instance.provider_id)).state is not InstanceState.STOPPED:
            assert time.monotonic() < deadline, f"still {seen}"
            await asyncio.sleep(0.05)
        assert seen.incarnation == instance.incarnation
        await removed(harness, provider, instance)
        assert (await created(harness, provider)).incarnation != instance.incarnation

    async def test_an_instance_that_vanished_is_gone_for_every_operation(self, harness: ProviderHarness) -> None:
        """Only then is the answer "not found"."""
        provider = harness.provider()
        instance = await created(harness, provider)
        await harness.vanish(instance)
        with pytest.raises(NotFoundError):
            await retried(harness, lambda: provider.get(instance.provider_id))
        assert await provider.find(instance.name) is None
        assert await provider.list_managed() == []
        await provider.delete(instance.provider_id, instance.incarnation)
        assert (await created(harness, harness.provider())).incarnation != instance.incarnation

    async def test_the_list_holds_the_managed_of_every_installation(self, harness: ProviderHarness) -> None:
        """Callers filter by the installation; what carries no mark of ours is not shown to them."""
        provider = harness.provider()
        instances = {}
        strangers = (*_STRANGERS, Stranger.OF_THE_REFERENCE)
        for number, stranger in enumerate(strangers):
            instances[stranger] = await provider.create(harness.request(f"uid-{number}"))
            await harness.make_strangers(instances[stranger], stranger)
        own = await provider.create(harness.request("uid-own"))
        listed = {instance.name: instance for instance in await harness.provider().list_managed()}
        expected = {
            own.name: OURS,
            instances[Stranger.OTHER_UID].name: OURS,
            instances[Stranger.OTHER_INSTALLATION].name: THEIRS,
            instances[Stranger.OF_THE_REFERENCE].name: "",
        }
        assert {name: instance.installation for name, instance in listed.items()} == expected
        assert listed[own.name].uid == "uid-own"
        assert listed[own.name].created_at == own.created_at
        assert listed[own.name].incarnation == own.incarnation
        assert listed[own.name].provider_id == own.provider_id

    async def test_an_id_that_was_never_given_out_is_permanent(self, harness: ProviderHarness) -> None:
        """It can never be resolved, so nothing may wait for it."""
        assert harness.malformed_ids
        provider = harness.provider()
        for provider_id in harness.malformed_ids:
            with pytest.raises(PermanentError):
                await provider.get(provider_id)
            with pytest.raises(PermanentError):
                await provider.delete(provider_id, "")

    async def test_delete_removes_everything_and_may_be_repeated(self, harness: ProviderHarness) -> None:
        """Before, during and after, by several workers."""
        instance = await created(harness, harness.provider())
        workers = (harness.provider(), harness.provider())
        await asyncio.gather(*(worker.delete(instance.provider_id, instance.incarnation) for worker in workers))
        await removed(harness, workers[0], instance)
        await workers[1].delete(instance.provider_id, instance.incarnation)
        await workers[1].delete(instance.provider_id, "")
        assert await workers[1].find(instance.name) is None
        assert await workers[1].list_managed() == []

    async def test_an_instance_that_goes_away_is_never_adopted(self, harness: ProviderHarness) -> None:
        """A create meanwhile waits or makes a new one."""
        provider = harness.provider()
        instance = await created(harness, provider)
        await provider.delete(instance.provider_id, instance.incarnation)
        successor = await retried(harness, lambda: harness.provider().create(harness.request()))
        assert successor.incarnation != instance.incarnation
        assert await harness.instances_of(instance.name) == 1
        await running(harness, provider, successor)

    async def test_delete_spares_another_incarnation(self, harness: ProviderHarness) -> None:
        """A delete that comes late, after the replacement, hits nothing."""
        provider = harness.provider()
        old = await created(harness, provider)
        await removed(harness, provider, old)
        new = await created(harness, provider)
        await provider.delete(old.provider_id, old.incarnation)
        assert (await provider.get(new.provider_id)).state is InstanceState.RUNNING
        await provider.delete(new.provider_id, "")
        await removed(harness, provider, new)
