"""Real Pods on a real node, in a namespace that enforces ``restricted``."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from model.errors import NotFoundError
from model.instance import Instance, InstanceState
from model.names import instance_name
from model.proxy import Placement
from providers.contract import CreateRequest
from providers.kubernetes.provider import KubernetesProvider
from providers.kubernetes.settings import parse_settings
from tests.support.kubectl import Kubectl
from tests.support.node import RealNode, tunnelled_echo


@pytest.fixture
async def provider(node: RealNode, node_kubectl: Kubectl) -> AsyncIterator[KubernetesProvider]:
    block = {"kubeconfig": str(node.kubeconfig), "namespace": node_kubectl.namespace, "image": node.squid_image}
    provider = KubernetesProvider(parse_settings(block, "kubernetes"))
    yield provider
    await provider.close()


def request_for(kubectl: Kubectl, port: int = 3128) -> CreateRequest:
    return CreateRequest(
        name=instance_name(kubectl.namespace),
        uid=kubectl.namespace,
        installation="ours",
        namespace=kubectl.namespace,
        proxy_name="one",
        placement=Placement(),
        port=port,
        spec_hash="v1-a",
    )


async def running(provider: KubernetesProvider, provider_id: str, seconds: float = 60.0) -> Instance:
    return await until(lambda: provider.get(provider_id), lambda one: one.state is InstanceState.RUNNING, seconds)


async def until(
    look: Callable[[], Awaitable[Instance]], wanted: Callable[[Instance], bool], seconds: float
) -> Instance:
    deadline = time.monotonic() + seconds
    while not wanted(seen := await look()):
        assert time.monotonic() < deadline, seen
        await asyncio.sleep(0.1)
    return seen


@pytest.mark.parametrize("port", [3128, 80])
async def test_squid_answers_connect_at_the_pods_address(
    provider: KubernetesProvider, node: RealNode, node_kubectl: Kubectl, port: int
) -> None:
    made = await provider.create(request_for(node_kubectl, port))
    instance = await running(provider, made.provider_id)
    assert await tunnelled_echo(instance.ip, node.address, port) == b"ping"


async def test_a_killed_squid_is_started_again_in_the_same_pod(
    provider: KubernetesProvider, node: RealNode, node_kubectl: Kubectl
) -> None:
    made = await provider.create(request_for(node_kubectl))
    await running(provider, made.provider_id)
    await asyncio.to_thread(node.kill_container, node_kubectl, made.name)
    killed_at = time.monotonic()
    seen = await until(lambda: provider.get(made.provider_id), lambda one: one.state is not InstanceState.RUNNING, 30.0)
    assert (seen.state, seen.incarnation) == (InstanceState.COMING, made.incarnation)
    instance = await running(provider, made.provider_id)
    assert time.monotonic() - killed_at < 10
    assert await tunnelled_echo(instance.ip, node.address) == b"ping"


async def test_a_deleted_pod_is_stopped_at_once_and_gone_within_10_seconds(
    provider: KubernetesProvider, node_kubectl: Kubectl
) -> None:
    made = await provider.create(request_for(node_kubectl))
    await running(provider, made.provider_id)
    began = time.monotonic()
    await provider.delete(made.provider_id, made.incarnation)
    with pytest.raises(NotFoundError):
        await until(lambda: stopped(provider, made.provider_id), lambda _: False, 30.0)
    assert time.monotonic() - began < 10


async def stopped(provider: KubernetesProvider, provider_id: str) -> Instance:
    """Return the Pod, which may not run any more."""
    instance = await provider.get(provider_id)
    assert instance.state is InstanceState.STOPPED
    return instance


async def test_an_image_that_is_not_there_is_named(node: RealNode, node_kubectl: Kubectl) -> None:
    block = {"kubeconfig": str(node.kubeconfig), "namespace": node_kubectl.namespace, "image": "127.0.0.1:9/squid:nope"}
    provider = KubernetesProvider(parse_settings(block, "kubernetes"))
    try:
        made = await provider.create(request_for(node_kubectl))
        seen = await until(lambda: provider.get(made.provider_id), lambda one: bool(one.message), 60.0)
        assert seen.state is InstanceState.COMING
        assert "image 127.0.0.1:9/squid:nope cannot be pulled" in seen.message
    finally:
        await provider.close()
