"""The provider on a real API server, which has no node: a Pod's status is what the test writes."""

import asyncio
import dataclasses
import uuid
from typing import Any

import pytest
from aiohttp import web

from model import names
from model.errors import (
    NameTakenError,
    NotFoundError,
    PermanentError,
    QuotaExceededError,
    TransientError,
)
from model.instance import InstanceState
from model.proxy import Placement
from providers.kubernetes.provider import KubernetesProvider
from tests.cluster.scripted_api import ScriptedApi
from tests.providers.kubernetes.api import Namespace
from tests.providers.kubernetes.conformance_harness import running_status
from tests.providers.kubernetes.conftest import ProviderFactory

PROXIES = f"/apis/{names.GROUP}/{names.VERSION}"


async def make_proxy(namespace: Namespace, name: str = "one") -> str:
    """Create a Proxy and return its uid."""
    body = {
        "apiVersion": f"{names.GROUP}/{names.VERSION}",
        "kind": "Proxy",
        "metadata": {"name": name},
        "spec": {"mode": "Managed", "provider": "kubernetes"},
    }
    return str((await namespace.add("proxies", body, PROXIES))["metadata"]["uid"])


async def test_the_pod_is_what_a_restricted_namespace_takes(provider: KubernetesProvider, namespace: Namespace) -> None:
    request = namespace.request()
    instance = await provider.create(request)
    assert instance.provider_id == f"{namespace.name}/{request.name}"
    pod = await namespace.pod(request.name)
    assert pod["metadata"]["annotations"]["crawl.example.com/proxy"] == f"{namespace.name}/one"
    spec = pod["spec"]
    assert spec["automountServiceAccountToken"] is spec["enableServiceLinks"] is False
    assert (spec["restartPolicy"], spec["terminationGracePeriodSeconds"]) == ("Always", 5)
    (container,) = spec["containers"]
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert container["readinessProbe"]["tcpSocket"]["port"] == 3128
    assert container["resources"]["limits"] == {"memory": "256Mi"}
    environment = {each["name"]: each["value"] for each in container["env"]}
    assert environment["PROXY_PORT"] == "3128"
    assert "http_port 3128\n" in environment["SQUID_CONFIG"]


async def test_the_settings_reach_the_pod(make_provider: ProviderFactory, namespace: Namespace) -> None:
    provider = make_provider(
        image="registry.example/squid:1",
        resources={"requests": {"cpu": "1"}},
        nodeSelector={"egress": "a"},
        tolerations=[{"key": "egress", "operator": "Exists"}],
        imagePullSecrets=["pull"],
    )
    request = namespace.request(port=80)
    await provider.create(request)
    spec = (await namespace.pod(request.name))["spec"]
    assert spec["containers"][0]["image"] == "registry.example/squid:1"
    assert spec["containers"][0]["resources"] == {"requests": {"cpu": "1"}}
    assert spec["nodeSelector"] == {"egress": "a"}
    assert {"key": "egress", "operator": "Exists"} in spec["tolerations"]
    assert spec["imagePullSecrets"] == [{"name": "pull"}]
    assert {"name": "net.ipv4.ip_unprivileged_port_start", "value": "0"} in spec["securityContext"]["sysctls"]


async def test_placement_and_cloud_init_are_ignored_as_by_the_reference(
    provider: KubernetesProvider, namespace: Namespace
) -> None:
    placement = Placement(region="r", zone="z", machine_type="m", image="i")
    request = namespace.request(placement=placement, cloud_init="S3ntinel")
    await provider.create(request)
    assert "S3ntinel" not in str(await namespace.pod(request.name))


async def test_the_pod_goes_with_its_proxy(provider: KubernetesProvider, namespace: Namespace) -> None:
    uid = await make_proxy(namespace)
    request = namespace.request(uid)
    instance = await provider.create(request)
    (owner,) = (await namespace.pod(request.name))["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["uid"]) == ("Proxy", "one", uid)
    await namespace.relay.admin("DELETE", f"{PROXIES}/namespaces/{namespace.name}/proxies/one")
    await until_gone(provider, instance.provider_id)


async def test_a_pod_without_marks_outlives_its_proxy(provider: KubernetesProvider, namespace: Namespace) -> None:
    uid = await make_proxy(namespace)
    request = namespace.request(uid)
    instance = await provider.create(request)
    await provider.remove_marks(instance.provider_id, instance.incarnation)
    metadata = (await namespace.pod(request.name))["metadata"]
    assert "ownerReferences" not in metadata
    assert not [label for label in metadata["labels"] if label.startswith("proxy-operator")]


@pytest.mark.parametrize("of_the_proxy", ["another uid", "another namespace", "none"])
async def test_a_pod_gets_no_owner_that_this_server_does_not_have(
    provider: KubernetesProvider, namespace: Namespace, of_the_proxy: str
) -> None:
    """Kubernetes would collect it at once."""
    uid = str(uuid.uuid4())
    if of_the_proxy != "none":
        made = await make_proxy(namespace)
        uid = made if of_the_proxy == "another namespace" else uid
    request = namespace.request(uid, namespace="elsewhere" if of_the_proxy == "another namespace" else namespace.name)
    await provider.create(request)
    assert "ownerReferences" not in (await namespace.pod(request.name))["metadata"]


async def test_without_a_configured_namespace_pods_live_beside_their_proxies(
    make_provider: ProviderFactory, namespace: Namespace
) -> None:
    provider = make_provider(namespace=None)
    request = namespace.request(str(uuid.uuid4()))
    assert await provider.find(request.name) is None
    instance = await provider.create(request)
    assert instance.provider_id == f"{namespace.name}/{request.name}"
    found = await provider.find(request.name)
    assert found is not None
    assert found.incarnation == instance.incarnation
    assert instance.incarnation in [one.incarnation for one in await provider.list_managed()]


async def test_a_missing_namespace_is_named(make_provider: ProviderFactory, namespace: Namespace) -> None:
    with pytest.raises(PermanentError, match=r'kubernetes.namespace: .*"nowhere-at-all" not found'):
        await make_provider(namespace="nowhere-at-all").create(namespace.request())


async def test_a_used_up_quota_is_waited_for_and_needs_no_edit_once_raised(
    provider: KubernetesProvider, namespace: Namespace
) -> None:
    quota = {"metadata": {"name": "pods"}, "spec": {"hard": {"pods": "1"}}}
    await add_quota(namespace, quota)
    first = await retried(provider.create, namespace.request("uid-a"))
    with pytest.raises(QuotaExceededError, match="exceeded quota: pods, requested: pods=1, used: pods=1, limited"):
        await retried(provider.create, namespace.request("uid-b"))
    # What is there already needs no more quota.
    assert (await provider.create(namespace.request("uid-a"))).incarnation == first.incarnation
    await namespace.relay.admin("PATCH", f"{namespace.path}/resourcequotas/pods", {"spec": {"hard": {"pods": "2"}}})
    deadline = asyncio.get_running_loop().time() + 30
    while True:
        try:
            await provider.create(namespace.request("uid-b"))
            break
        except QuotaExceededError:
            assert asyncio.get_running_loop().time() < deadline
            await asyncio.sleep(0.1)


async def test_a_quota_that_wants_limits_names_the_settings(provider: KubernetesProvider, namespace: Namespace) -> None:
    quota = {"metadata": {"name": "cpu"}, "spec": {"hard": {"limits.cpu": "1"}}}
    await add_quota(namespace, quota)
    with pytest.raises(PermanentError, match=r"kubernetes.resources: .*must specify limits.cpu"):
        await retried(provider.create, namespace.request())


async def test_a_pod_that_breaks_a_limit_range_names_the_settings(
    provider: KubernetesProvider, namespace: Namespace
) -> None:
    limits = {"metadata": {"name": "max"}, "spec": {"limits": [{"type": "Container", "max": {"memory": "32Mi"}}]}}
    await namespace.add("limitranges", limits)
    with pytest.raises(PermanentError, match=r"kubernetes.resources: .*maximum memory usage per Container is 32Mi"):
        await retried(provider.create, namespace.request())


async def test_an_impossible_amount_names_the_field_and_the_value(
    make_provider: ProviderFactory, namespace: Namespace
) -> None:
    provider = make_provider(resources={"requests": {"memory": "2Gi"}, "limits": {"memory": "1Gi"}})
    with pytest.raises(PermanentError, match=r'resources.requests: Invalid value: "2Gi": must be less than'):
        await provider.create(namespace.request())


async def test_a_terminating_namespace_is_waited_for(provider: KubernetesProvider, namespace: Namespace) -> None:
    await provider.create(namespace.request("uid-a"))
    await namespace.patch(names.instance_name("uid-a"), finalizers=["example.com/hold"])
    await namespace.relay.admin("DELETE", namespace.path)
    with pytest.raises(TransientError, match="because it is being terminated"):
        await provider.create(namespace.request("uid-b"))


async def test_a_pod_of_the_reference_gets_our_mark_only(provider: KubernetesProvider, namespace: Namespace) -> None:
    request = namespace.request()
    await provider.create(request)
    await namespace.patch(request.name, labels={names.MARK_INSTALLATION: None, names.MARK_SPEC_HASH: None})
    adopted = await provider.create(dataclasses.replace(request, spec_hash="v1-b"))
    assert (adopted.installation, adopted.spec_hash) == ("ours", "")


async def test_an_adoption_that_another_installation_wins_is_no_adoption(
    make_provider: ProviderFactory, namespace: Namespace
) -> None:
    """The mark is written to the Pod as it was read, or not at all."""
    provider = make_provider(kubeconfig=str(namespace.relay.kubeconfig))
    request = namespace.request()
    await provider.create(request)
    await namespace.patch(request.name, labels={names.MARK_INSTALLATION: None})

    async def theirs_first(method: str, path: str, body: Any) -> None:
        if method == "PATCH":
            namespace.relay.before = None
            await namespace.patch(request.name, labels={names.MARK_INSTALLATION: "theirs"})

    namespace.relay.before = theirs_first
    with pytest.raises(NameTakenError, match="belongs to installation theirs"):
        await provider.create(request)


async def test_a_delete_that_meets_a_successor_spares_it(make_provider: ProviderFactory, namespace: Namespace) -> None:
    """The Pod was replaced between the look and the delete."""
    provider = make_provider(kubeconfig=str(namespace.relay.kubeconfig))
    old = await provider.create(namespace.request())

    async def replaced_first(method: str, path: str, body: Any) -> None:
        if method == "DELETE":
            namespace.relay.before = None
            await namespace.relay.admin("DELETE", path)
            await namespace.relay.admin("POST", f"{namespace.path}/pods", stripped)

    pod = await namespace.pod(old.name)
    stripped = {"metadata": {"name": old.name, "labels": pod["metadata"]["labels"]}, "spec": pod["spec"]}
    namespace.relay.before = replaced_first
    with pytest.raises(TransientError, match="changed while it was to be deleted"):
        await provider.delete(old.provider_id, old.incarnation)
    await provider.delete(old.provider_id, old.incarnation)
    assert (await provider.get(old.provider_id)).incarnation != old.incarnation


async def test_a_pod_stuck_while_it_goes_stays_known_and_is_neither_adopted_nor_forced(
    make_provider: ProviderFactory, namespace: Namespace
) -> None:
    provider = make_provider(kubeconfig=str(namespace.relay.kubeconfig))
    request = namespace.request()
    instance = await provider.create(request)
    await namespace.set_status(request.name, running_status())
    assert (await provider.get(instance.provider_id)).state is InstanceState.RUNNING
    await namespace.patch(request.name, finalizers=["example.com/hold"])
    await provider.delete(instance.provider_id, instance.incarnation)
    seen = await provider.get(instance.provider_id)
    assert (seen.state, seen.ip, seen.incarnation) == (InstanceState.STOPPED, "", instance.incarnation)
    assert "example.com/hold" in seen.message
    with pytest.raises(TransientError, match="still going away"):
        await provider.create(request)
    namespace.relay.plant()
    await provider.delete(instance.provider_id, instance.incarnation)
    assert namespace.relay.steps == ["GET pod"]
    await namespace.patch(request.name, finalizers=None)
    await until_gone(provider, instance.provider_id)


async def test_an_eviction_says_why_it_stopped(provider: KubernetesProvider, namespace: Namespace) -> None:
    instance = await provider.create(namespace.request())
    await namespace.set_status(instance.name, running_status())
    evicted = {"phase": "Failed", "reason": "Evicted", "message": "The node was low on resource: memory."}
    await namespace.set_status(instance.name, evicted)
    seen = await provider.get(instance.provider_id)
    assert (seen.state, seen.message) == (InstanceState.STOPPED, "Evicted: The node was low on resource: memory.")


async def test_long_lists_come_in_pages(
    make_provider: ProviderFactory, namespace: Namespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("providers.kubernetes.pods.PAGE_SIZE", 2)
    provider = make_provider(kubeconfig=str(namespace.relay.kubeconfig))
    made = [await provider.create(namespace.request(f"uid-{number}")) for number in range(5)]
    namespace.relay.plant()
    listed = await provider.list_managed()
    assert {one.incarnation for one in listed} == {one.incarnation for one in made}
    assert namespace.relay.steps == ["LIST pod", "LIST pod #2", "LIST pod #3"]


async def add_quota(namespace: Namespace, quota: dict[str, Any]) -> None:
    """Create a quota, and wait until it counts: before, a create may pass that it does not know of."""
    await namespace.add("resourcequotas", quota)
    path = f"{namespace.path}/resourcequotas/{quota['metadata']['name']}"
    deadline = asyncio.get_running_loop().time() + 60
    while not (await namespace.relay.admin("GET", path)).get("status", {}).get("used"):
        assert asyncio.get_running_loop().time() < deadline, "the quota does not count"
        await asyncio.sleep(0.1)


async def retried(call: Any, argument: Any) -> Any:
    """Call again while a quota that was just made is not yet known to the API server."""
    deadline = asyncio.get_running_loop().time() + 30
    while True:
        try:
            return await call(argument)
        except TransientError:
            assert asyncio.get_running_loop().time() < deadline
        await asyncio.sleep(0.1)


async def until_gone(provider: KubernetesProvider, provider_id: str) -> None:
    deadline = asyncio.get_running_loop().time() + 60
    while True:
        try:
            await provider.get(provider_id)
        except NotFoundError:
            return
        assert asyncio.get_running_loop().time() < deadline
        await asyncio.sleep(0.05)


async def test_a_look_in_all_namespaces_is_no_reading_of_every_pod(
    make_provider: ProviderFactory, namespace: Namespace, scripted: ScriptedApi
) -> None:
    """In pages, an API server would read them all from its store, at each create."""

    async def answer(_request: web.Request) -> web.Response:
        return web.json_response({"kind": "PodList", "metadata": {}, "items": []})

    scripted.on_list = answer
    provider = make_provider(kubeconfig=str(scripted.kubeconfig), namespace=None)
    assert await provider.find("proxy-a") is None
    assert scripted.lists == [{"fieldSelector": "metadata.name=proxy-a"}]
    everywhere = make_provider(namespace=None)
    made = await everywhere.create(namespace.request(f"uid-{uuid.uuid4().hex}"))
    found = await everywhere.find(made.name)
    assert found is not None
    assert found.incarnation == made.incarnation


async def test_marks_that_were_taken_off_by_hand_come_back_with_the_adoption(
    provider: KubernetesProvider, namespace: Namespace
) -> None:
    made = await provider.create(namespace.request())
    await namespace.patch(made.name, labels={"proxy-operator-managed": None})
    assert await provider.list_managed() == []
    again = await provider.create(namespace.request())
    assert again.incarnation == made.incarnation
    assert [one.incarnation for one in await provider.list_managed()] == [made.incarnation]


async def test_a_strangers_pod_of_our_name_elsewhere_is_in_nobodys_way(
    make_provider: ProviderFactory, scripted: ScriptedApi, namespace: Namespace
) -> None:
    request = namespace.request(f"uid-{uuid.uuid4().hex}")

    def of(uid: str, where: str, day: int) -> dict[str, Any]:
        labels = {"proxy-operator-managed": "true", "proxy-operator-uid": uid} if uid else {}
        metadata = {"name": request.name, "namespace": where, "uid": where, "labels": labels, "resourceVersion": "1"}
        return {"metadata": {**metadata, "creationTimestamp": f"2026-01-0{day}T03:04:05Z"}}

    pods = [of("", "a", 1), of("another", "b", 1)]

    async def answer(_request: web.Request) -> web.Response:
        return web.json_response({"kind": "PodList", "metadata": {}, "items": pods})

    scripted.on_list = answer
    everywhere = make_provider(kubeconfig=str(scripted.kubeconfig), namespace=None)
    assert await everywhere.find(request.name) is None
    pods.append(of(request.uid, "c", 2))
    found = await everywhere.find(request.name)
    assert found is not None
    assert found.provider_id == f"c/{request.name}"


async def test_a_long_grace_given_by_hand_is_cut_short(provider: KubernetesProvider, namespace: Namespace) -> None:
    made = await provider.create(namespace.request())
    path = f"{namespace.path}/pods/{made.name}"
    binding = {"metadata": {"name": made.name}, "target": {"kind": "Node", "name": "node-3"}}
    await namespace.relay.admin("POST", f"{path}/binding", binding)
    await namespace.relay.admin("DELETE", path, {"gracePeriodSeconds": 3600})
    assert (await namespace.pod(made.name))["metadata"]["deletionGracePeriodSeconds"] == 3600
    await provider.delete(made.provider_id, "another")
    assert (await namespace.pod(made.name))["metadata"]["deletionGracePeriodSeconds"] == 3600
    await provider.delete(made.provider_id, made.incarnation)
    assert (await namespace.pod(made.name))["metadata"].get("deletionGracePeriodSeconds") == 5
    await namespace.relay.admin("DELETE", path, {"gracePeriodSeconds": 0})
