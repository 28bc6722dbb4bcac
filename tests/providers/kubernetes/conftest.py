"""A namespace that takes only Pods of the level ``restricted``, a relay in front of the API server, and providers."""

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from providers.kubernetes.provider import KubernetesProvider
from providers.kubernetes.settings import parse_settings
from tests.cluster.scripted_api import ScriptedApi
from tests.providers.kubernetes.api import Namespace
from tests.providers.kubernetes.relay import Relay

ProviderFactory = Callable[..., KubernetesProvider]


@pytest.fixture
async def relay(kubeconfig: Path, tmp_path: Path) -> AsyncIterator[Relay]:
    async with Relay(kubeconfig, tmp_path) as relay:
        yield relay


@pytest.fixture
async def restricted_namespace(relay: Relay) -> AsyncIterator[str]:
    """A fresh namespace that enforces ``restricted``, once Pods can be made in it."""
    name = f"test-{uuid.uuid4().hex[:12]}"
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    await relay.admin("POST", "/api/v1/namespaces", {"metadata": {"name": name, "labels": labels}})
    path = f"/api/v1/namespaces/{name}"
    deadline = time.monotonic() + 60
    while not await relay.admin("GET", f"{path}/serviceaccounts/default"):
        assert time.monotonic() < deadline, "the namespace got no service account"
        await asyncio.sleep(0.05)
    yield name
    # A finalizer that a test put on a Pod would keep the namespace for ever.
    for pod in (await relay.admin("GET", f"{path}/pods"))["items"]:
        if pod["metadata"].get("finalizers"):
            await relay.admin("PATCH", f"{path}/pods/{pod['metadata']['name']}", {"metadata": {"finalizers": None}})
    await relay.admin("DELETE", path)


@pytest.fixture
def namespace(relay: Relay, restricted_namespace: str) -> Namespace:
    """The fresh namespace, looked at by its administrator."""
    return Namespace(relay, restricted_namespace)


@pytest.fixture
async def make_provider(kubeconfig: Path, namespace: Namespace) -> AsyncIterator[ProviderFactory]:
    """Make providers for the fresh namespace; arguments are keys of the config block, None leaves one out."""
    providers: list[KubernetesProvider] = []

    def make(timeout: float = 10.0, **block: object) -> KubernetesProvider:
        whole = {"kubeconfig": str(kubeconfig), "namespace": namespace.name, **block}
        given = {key: value for key, value in whole.items() if value is not None}
        providers.append(KubernetesProvider(parse_settings(given, "kubernetes"), timeout))
        return providers[-1]

    yield make
    for provider in providers:
        await provider.close()


@pytest.fixture
def provider(make_provider: ProviderFactory) -> KubernetesProvider:
    """The provider with its defaults."""
    return make_provider()


@pytest.fixture
async def scripted(tmp_path: Path) -> AsyncIterator[ScriptedApi]:
    async with ScriptedApi(tmp_path) as api:
        yield api


@pytest.fixture
async def to_scripted(scripted: ScriptedApi) -> AsyncIterator[KubernetesProvider]:
    """A provider in front of a scripted API server, with a deadline of 1 s."""
    settings = parse_settings({"kubeconfig": str(scripted.kubeconfig), "namespace": "ns"}, "kubernetes")
    provider = KubernetesProvider(settings, 1.0)
    yield provider
    await provider.close()
