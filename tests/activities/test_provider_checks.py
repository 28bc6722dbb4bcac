"""What a check says is clean and bounded before it becomes part of a history."""

import dataclasses
import json
from pathlib import Path

import pytest
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from activities.provider_checks import CheckActivities
from model.errors import TransientError
from model.provider_check_messages import CheckAnswer, CheckProvider
from model.provider_health import API_ERROR, TIMEOUT, UNREACHABLE, TargetHealth
from providers.config import ProvidersFile
from providers.limits import LimitedProvider
from providers.registry import ProviderRegistry
from tests.providers.swept import SweptProvider, registry_of

SECRET = "S3cr3t-xyz-hunter2"


async def check(registry: ProviderRegistry, timeout: float = 5.0) -> CheckAnswer:
    asked = CheckProvider(provider="box", timeout_seconds=timeout)
    return await ActivityEnvironment().run(CheckActivities(registry).check_provider, asked)


async def test_no_secret_and_no_long_text_enters_a_history(tmp_path: Path) -> None:
    box = SweptProvider()
    text = f'HTTP 500 {{"message": "Authorization: Bearer {SECRET}"}} ' + "x" * 100_000
    box.targets = [
        TargetHealth(
            name=f"host-{number}",
            address=f"https://me:{SECRET}@host",
            ready=False,
            reason=UNREACHABLE,
            message=text,
            details={"token": SECRET, "log": text},
        )
        for number in range(2000)
    ]
    answer = json.dumps(dataclasses.asdict(await check(registry_of(tmp_path, {"box": box}))))
    assert SECRET not in answer
    assert len(answer) < 700_000


async def test_a_check_that_hangs_or_fails_outside_the_contract_says_which(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    box = SweptProvider()
    file = tmp_path / "providers.yaml"
    await registry_of(tmp_path, {"box": box}).close()
    registry = ProviderRegistry(
        ProvidersFile(file, require_local_task_queue=False),
        "ours",
        build=lambda entry, installation: LimitedProvider(box, entry, installation),
    )
    box.check_gate.clear()
    with pytest.raises(ApplicationError, match="no verdict within") as hung:
        await check(registry, 0.1)
    assert (hung.value.type, hung.value.non_retryable) == (TIMEOUT, True)

    async def broken() -> list[TargetHealth]:
        raise ValueError(f"password={SECRET}")

    monkeypatch.setattr(box, "check", broken)
    with pytest.raises(ApplicationError, match=r"failed: ValueError: password=\*\*\*") as failed:
        await check(registry)
    assert failed.value.type == API_ERROR

    async def odd() -> list[TargetHealth]:
        raise TransientError(f"token={SECRET}")

    monkeypatch.setattr(box, "check", odd)
    with pytest.raises(ApplicationError) as refused:
        await check(registry)
    assert SECRET not in str(refused.value)
    await registry.close()
