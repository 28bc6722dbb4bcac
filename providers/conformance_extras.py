"""The rules of the conformance suite about secrets, and about what only some providers can do."""

import logging
import re

import pytest

from model.errors import NameTakenError, NotFoundError
from model.instance import InstanceState
from model.provider_health import REACHABLE
from providers.conformance_harness import CLOUD_INIT_SENTINEL, OURS, ProviderHarness, Stranger
from providers.conformance_steps import created, outcome_of, removed
from providers.contract import Checker, MarkEditor, Provider


class SecretRules:
    """What nobody may get to read."""

    async def test_no_secret_is_in_any_text(self, harness: ProviderHarness, caplog: pytest.LogCaptureFixture) -> None:
        """Logs of every level, errors with their causes, and what objects say of themselves."""
        caplog.set_level(logging.DEBUG)
        secret_request = harness.request(cloud_init=CLOUD_INIT_SENTINEL)
        provider = harness.provider()
        outcomes = [await outcome_of(provider.create(secret_request), harness.patience_seconds)]
        assert outcomes[0].word == ("ok" if harness.takes_cloud_init else "PermanentError")
        for request, _ in harness.impossible_requests():
            call = provider.create(request)
            outcomes.append(await outcome_of(call, harness.patience_seconds))
        async with harness.backend_down():
            outcomes.append(await outcome_of(provider.create(secret_request), harness.patience_seconds))
        words = [caplog.text, repr(secret_request), repr(provider), *(repr(one.value) + one.text for one in outcomes)]
        for secret in (CLOUD_INIT_SENTINEL, *harness.secrets):
            assert not [text for text in words if secret in text]


class ExtraRules:
    """What holds for a check and for the editing of marks; skipped where a backend has none."""

    async def test_the_check_tells_about_every_target_and_never_fails(self, harness: ProviderHarness) -> None:
        """One verdict per target in a stable order, in good and in bad times."""
        checker = _checker(harness)
        good = await checker.check()
        assert good
        assert all(target.ready and target.reason == REACHABLE for target in good), good
        assert len({target.name for target in good}) == len(good)
        async with harness.backend_down():
            bad = await _checker(harness).check()
        assert [target.name for target in bad] == [target.name for target in good]
        failed = [target for target in bad if not target.ready]
        assert failed
        assert all(re.fullmatch(r"[A-Z][A-Za-z]+", target.reason) and target.message for target in failed), failed
        assert not [target for target in failed if target.reason == REACHABLE]

    async def test_the_check_touches_no_instance(self, harness: ProviderHarness) -> None:
        """Neither does it need one."""
        checker, provider = _checker(harness), harness.provider()
        assert await provider.list_managed() == []
        await checker.check()
        assert await provider.list_managed() == []

    async def test_marks_are_written_to_the_incarnation_that_is_meant(self, harness: ProviderHarness) -> None:
        """Once or twice; what is not there is not found."""
        provider = harness.provider()
        editor = _editor(provider)
        instance = await created(harness, provider)
        await harness.make_strangers(instance, Stranger.OF_THE_REFERENCE)
        with pytest.raises(NotFoundError):
            await editor.write_marks(instance.provider_id, "another-incarnation", OURS, "v1-z")
        assert (await provider.get(instance.provider_id)).installation == ""
        for _ in range(2):
            await editor.write_marks(instance.provider_id, instance.incarnation, OURS, "v1-z")
            seen = await harness.provider().get(instance.provider_id)
            assert (seen.installation, seen.spec_hash, seen.uid) == (OURS, "v1-z", instance.uid)
            assert seen.state is InstanceState.RUNNING
        await removed(harness, provider, instance)
        with pytest.raises(NotFoundError):
            await editor.write_marks(instance.provider_id, instance.incarnation, OURS, "v1-z")

    async def test_an_instance_whose_marks_were_removed_is_nobodys(self, harness: ProviderHarness) -> None:
        """It lives on; nothing lists, adopts or collects it again."""
        provider = harness.provider()
        editor = _editor(provider)
        instance = await created(harness, provider)
        await editor.remove_marks(instance.provider_id, "another-incarnation")
        assert len(await provider.list_managed()) == 1
        for _ in range(2):
            await editor.remove_marks(instance.provider_id, instance.incarnation)
        assert await provider.list_managed() == []
        with pytest.raises(NameTakenError):
            await provider.create(harness.request())
        assert await harness.instances_of(instance.name) == 1
        await harness.vanish(instance)
        await editor.remove_marks(instance.provider_id, instance.incarnation)


def _checker(harness: ProviderHarness) -> Checker:
    checker = harness.provider().checker
    if checker is None:
        pytest.skip("the provider has no check")
    return checker


def _editor(provider: Provider) -> MarkEditor:
    editor = provider.mark_editor
    if editor is None:
        pytest.skip("the backend does not let marks be changed")
    return editor
