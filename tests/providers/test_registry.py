"""Providers by name, following the config."""

import asyncio
import functools
import logging
import subprocess
import sys
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from model.errors import PROVIDER_ERRORS, ProviderNotConfiguredError
from providers.config import ProviderEntry, ProvidersFile
from providers.contract import Provider
from providers.limits import LimitedProvider
from providers.metrics import ProviderMetrics
from providers.registry import ProviderRegistry, build_provider
from tests.providers.polling import until
from tests.providers.scripted import ScriptedProvider, instance


class Backends:
    """Builds scripted providers with the real wrapper around them."""

    def __init__(self) -> None:
        self.built: list[tuple[ProviderEntry, ScriptedProvider]] = []

    def build(self, entry: ProviderEntry, installation: str) -> Provider:
        backend = ScriptedProvider()
        backend.instances["a"] = instance("a")
        self.built.append((entry, backend))
        return LimitedProvider(backend, entry, installation)


def write(path: Path, *names: str) -> None:
    items = ", ".join(
        f"{{name: {name}, type: local, local: {{software: auto, addresses: [127.0.0.2], stateDir: /{name}}}}}"
        for name in names
    )
    path.write_text(f"providers: [{items}]")


def registry_over(path: Path, backends: Backends) -> ProviderRegistry:
    file = ProvidersFile(path, require_local_task_queue=False)
    return ProviderRegistry(file, "ours", build=backends.build, refresh_seconds=0)


async def test_builds_lazily_and_once(tmp_path: Path) -> None:
    write(tmp_path / "p.yaml", "box1", "box2")
    backends = Backends()
    registry = registry_over(tmp_path / "p.yaml", backends)
    assert [entry.name for entry in await registry.entries()] == ["box1", "box2"]
    assert backends.built == []
    one, two = await asyncio.gather(registry.get("box1"), registry.get("box1"))
    assert one is two
    assert [entry.name for entry, _ in backends.built] == ["box1"]
    await registry.close()


async def test_a_name_outside_the_config_is_told_and_recovers_when_it_appears(tmp_path: Path) -> None:
    write(tmp_path / "p.yaml", "box1")
    registry = registry_over(tmp_path / "p.yaml", Backends())
    with pytest.raises(ProviderNotConfiguredError) as caught:
        await registry.get("box2")
    assert str(caught.value) == 'spec.provider: the providers config has no provider "box2"; it has: box1'
    assert caught.value.reason == "ProviderNotConfigured"
    assert PROVIDER_ERRORS["ProviderNotConfiguredError"] is ProviderNotConfiguredError
    assert await registry.entry("box2") is None
    write(tmp_path / "p.yaml", "box1", "box2")
    await registry.get("box2")
    found = await registry.entry("box2")
    assert found is not None
    assert found.name == "box2"
    await registry.close()


async def test_a_changed_entry_is_built_anew_and_calls_in_flight_finish_on_the_old_one(tmp_path: Path) -> None:
    write(tmp_path / "p.yaml", "box1", "box2")
    backends = Backends()
    registry = registry_over(tmp_path / "p.yaml", backends)
    old = await registry.get("box1")
    unchanged = await registry.get("box2")
    old_backend = backends.built[0][1]
    old_backend.gate.clear()
    call = asyncio.create_task(old.get("a"))
    await until(lambda: old_backend.running == 1)
    (tmp_path / "p.yaml").write_text((tmp_path / "p.yaml").read_text().replace("software: auto", "software: squid", 1))
    new = await registry.get("box1")
    assert new is not old
    assert await registry.get("box2") is unchanged
    assert (await new.get("a")).name == "a"
    assert not old_backend.closed
    old_backend.gate.set()
    assert (await call).name == "a"
    await until(lambda: old_backend.closed)
    await registry.close()
    assert all(backend.closed for _, backend in backends.built)


async def test_a_removed_entry_is_closed(tmp_path: Path) -> None:
    write(tmp_path / "p.yaml", "box1")
    backends = Backends()
    registry = registry_over(tmp_path / "p.yaml", backends)
    await registry.get("box1")
    write(tmp_path / "p.yaml", "box2")
    with pytest.raises(ProviderNotConfiguredError):
        await registry.get("box1")
    await registry.close()
    assert backends.built[0][1].closed


async def test_a_bad_edit_keeps_what_was_built_and_is_logged_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write(tmp_path / "p.yaml", "box1")
    registry = registry_over(tmp_path / "p.yaml", Backends())
    provider = await registry.get("box1")
    (tmp_path / "p.yaml").write_text("providers: [{nmae: x}]")
    with caplog.at_level(logging.ERROR):
        assert await registry.get("box1") is provider
        assert await registry.get("box1") is provider
    assert "providers[0].name: required" in registry.config_error
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    with pytest.raises(ProviderNotConfiguredError, match="its last edit was not taken"):
        await registry.get("box2")
    await registry.close()


async def test_a_bad_edit_shows_in_a_metric_until_it_is_mended(tmp_path: Path) -> None:
    write(tmp_path / "p.yaml", "box1")
    registry = registry_over(tmp_path / "p.yaml", Backends())
    metrics = CollectorRegistry()
    ProviderMetrics(metrics).follow_config(lambda: registry.config_error)
    shown = []
    for text in ((tmp_path / "p.yaml").read_text(), "providers: [{nmae: x}]", "providers: []"):
        (tmp_path / "p.yaml").write_text(text)
        await registry.entries()
        shown.append(metrics.get_sample_value("proxy_operator_providers_config_error"))
    assert shown == [0.0, 1.0, 0.0]
    assert registry.config_error == ""
    await registry.close()


async def test_the_file_is_looked_at_no_more_often_than_asked(tmp_path: Path) -> None:
    write(tmp_path / "p.yaml", "box1")
    backends = Backends()
    file = ProvidersFile(tmp_path / "p.yaml", require_local_task_queue=False)
    registry = ProviderRegistry(file, "ours", build=backends.build, refresh_seconds=3600)
    await registry.get("box1")
    write(tmp_path / "p.yaml", "box2")
    await registry.get("box1")
    await registry.close()


async def test_builds_the_real_local_provider(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(
        f"providers: [{{name: box1, type: local, local: {{addresses: [127.0.0.2], stateDir: {tmp_path / 'state'}}}}}]"
    )
    file = ProvidersFile(tmp_path / "p.yaml", require_local_task_queue=False)
    build = functools.partial(build_provider, metrics=ProviderMetrics(CollectorRegistry()))
    registry = ProviderRegistry(file, "ours", build=build)
    assert await (await registry.get("box1")).list_managed() == []
    await registry.close()


def test_a_backend_is_imported_only_when_the_config_names_it(tmp_path: Path) -> None:
    empty, local = tmp_path / "empty.yaml", tmp_path / "local.yaml"
    empty.write_text("providers: []")
    write(local, "box1")
    script = (
        "import sys, providers.registry; from providers.config import ProvidersFile\n"
        "for path in sys.argv[1:]:\n"
        "    ProvidersFile(path, require_local_task_queue=False)\n"
        "    print('providers.local' in sys.modules)\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", script, str(empty), str(local)],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        cwd=Path(__file__).parents[2],
    )
    assert result.stdout.split() == ["False", "True"]
