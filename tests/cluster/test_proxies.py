"""Reads and writes of Proxies on a real API server."""

import asyncio
import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
from aiohttp import web

import cluster.connection
from cluster.connection import ClusterConnection
from cluster.errors import ClusterError, ObjectConflictError, UnreadableObjectError
from cluster.proxies import ProxyStore
from model import names
from model.proxy import Condition, Proxy, ProxyStatus, status_to_object
from model.reasons import Provisioned
from model.status import Facts, Health, build_status
from tests.cluster.scripted_api import ScriptedApi, item
from tests.support.kubectl import Kubectl, proxy

MANAGED = {"mode": "Managed", "provider": "box"}
NOW = "2026-01-01T00:00:00Z"
FOREIGN = "foreign.example.com/keep"


async def apply(kubectl: Kubectl, name: str = "one", finalizers: list[str] | None = None, **metadata: Any) -> str:
    """Create a Proxy; return its uid."""
    body = proxy(name, MANAGED)
    body["metadata"] |= metadata | ({"finalizers": finalizers} if finalizers else {})
    result = await asyncio.to_thread(kubectl.apply, body)
    assert result.returncode == 0, result.stderr
    return (await asyncio.to_thread(kubectl.get, "proxy", name))["metadata"]["uid"]  # type: ignore[no-any-return]


async def current(store: ProxyStore, kubectl: Kubectl, name: str = "one") -> Proxy:
    found = await store.get(kubectl.namespace, name)
    assert found is not None
    return found


async def recreate(kubectl: Kubectl, name: str = "one") -> str:
    await kubectl.acall("delete", "proxy", name)
    return await apply(kubectl, name)


async def test_an_object_is_read_with_its_defaults(store: ProxyStore, kubectl: Kubectl) -> None:
    uid = await apply(kubectl, annotations={names.ANNOTATION_RETRY: "1"})
    found = await current(store, kubectl)
    assert (found.uid, found.name, found.namespace) == (uid, "one", kubectl.namespace)
    assert (found.generation, found.deleting, found.status) == (1, False, ProxyStatus())
    assert found.annotations[names.ANNOTATION_RETRY] == "1"
    assert (found.spec.port, found.spec.max_leases, found.spec.health_check.interval_seconds) == (3128, 5, 10)
    assert await store.get(kubectl.namespace, "two") is None
    assert await store.get("no-such-namespace", "one") is None


async def test_a_list_comes_in_pages_and_only_of_the_namespace(
    store: ProxyStore, connection: ClusterConnection, kubectl: Kubectl, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster.connection, "PAGE_SIZE", 2)
    wanted = [f"p{number}" for number in range(5)]
    result = await asyncio.to_thread(kubectl.apply, *(proxy(name, MANAGED) for name in wanted))
    assert result.returncode == 0
    assert [found.name async for found in store.list_readable()] == wanted
    everywhere = [found async for found in ProxyStore(connection).list_readable()]
    assert [found.name for found in everywhere if found.namespace == kubectl.namespace] == wanted


async def test_an_object_that_is_no_proxy_is_left_out_and_told(
    scripted: ScriptedApi, to_scripted: ClusterConnection, caplog: pytest.LogCaptureFixture
) -> None:
    async def three(_request: web.Request) -> web.Response:
        items = [item("a"), {**item("bad"), "spec": "nothing"}, item("b")]
        return web.json_response({"metadata": {"resourceVersion": "1"}, "items": items})

    scripted.on_list = three
    assert [found.name async for found in ProxyStore(to_scripted).list_readable()] == ["a", "b"]
    assert "left out: Proxy ns/bad" in caplog.text


async def test_an_object_that_is_no_proxy_is_read_by_nobody(
    scripted: ScriptedApi, to_scripted: ClusterConnection
) -> None:
    async def bad(_request: web.Request) -> web.Response:
        return web.json_response({**item("bad"), "spec": {"port": "x"}})

    scripted.on_list = bad
    with pytest.raises(UnreadableObjectError, match=r"ns/bad .*spec: port: str is no int"):
        await ProxyStore(to_scripted).get("ns", "bad")


async def test_a_finalizer_is_added_once_and_beside_others(store: ProxyStore, kubectl: Kubectl) -> None:
    uid = await apply(kubectl, finalizers=[FOREIGN])
    for _ in range(2):
        await store.add_finalizer(kubectl.namespace, "one", uid)
    assert (await current(store, kubectl)).finalizers == (FOREIGN, names.FINALIZER)
    version = (await current(store, kubectl)).resource_version
    await store.add_finalizer(kubectl.namespace, "one", uid)
    assert (await current(store, kubectl)).resource_version == version
    await clear_finalizers(kubectl)


async def test_many_at_once_leave_one_finalizer(store: ProxyStore, kubectl: Kubectl) -> None:
    uid = await apply(kubectl, finalizers=[FOREIGN])
    adding = (store.add_finalizer(kubectl.namespace, "one", uid) for _ in range(4))
    await asyncio.gather(*adding)
    assert (await current(store, kubectl)).finalizers == (FOREIGN, names.FINALIZER)
    await clear_finalizers(kubectl)


async def clear_finalizers(kubectl: Kubectl, name: str = "one") -> None:
    await kubectl.acall("patch", "proxy", name, "--type=merge", "-p", '{"metadata":{"finalizers":null}}')


async def test_an_object_being_deleted_takes_no_finalizer(store: ProxyStore, kubectl: Kubectl) -> None:
    uid = await apply(kubectl, finalizers=[FOREIGN])
    await kubectl.acall("delete", "proxy", "one", "--wait=false")
    with pytest.raises(ObjectConflictError, match="is being deleted"):
        await store.add_finalizer(kubectl.namespace, "one", uid)
    assert (await current(store, kubectl)).finalizers == (FOREIGN,)
    await clear_finalizers(kubectl)


async def test_release_takes_every_finalizer_of_the_group_and_no_other(store: ProxyStore, kubectl: Kubectl) -> None:
    uid = await apply(kubectl, finalizers=[names.FINALIZER, FOREIGN, "crawl.example.com/of-the-reference"])
    for _ in range(2):
        await store.release(kubectl.namespace, "one", uid)
        assert (await current(store, kubectl)).finalizers == (FOREIGN,)
    await clear_finalizers(kubectl)


async def test_release_lets_a_deleted_object_go_and_may_be_repeated(store: ProxyStore, kubectl: Kubectl) -> None:
    uid = await apply(kubectl, finalizers=[names.FINALIZER])
    await kubectl.acall("delete", "proxy", "one", "--wait=false")
    for _ in range(2):
        await store.release(kubectl.namespace, "one", uid)
        assert await store.get(kubectl.namespace, "one") is None


Write = Callable[[ProxyStore, str, str], Any]
WRITES: dict[str, Write] = {
    "add_finalizer": lambda store, namespace, uid: store.add_finalizer(namespace, "one", uid),
    "record_spec_hash": lambda store, namespace, uid: store.record_spec_hash(namespace, "one", uid, "v1-x"),
    "write_status": lambda store, namespace, uid: store.write_status(
        namespace, "one", uid, ProxyStatus(phase="Failed")
    ),
}


@pytest.mark.parametrize("write", WRITES)
async def test_a_write_spares_a_recreated_object(store: ProxyStore, kubectl: Kubectl, write: str) -> None:
    former = await apply(kubectl)
    await recreate(kubectl)
    before = await current(store, kubectl)
    with pytest.raises(ObjectConflictError):
        await WRITES[write](store, kubectl.namespace, former)
    assert await current(store, kubectl) == before


@pytest.mark.parametrize("write", WRITES)
async def test_a_write_to_an_object_that_is_gone_says_so(store: ProxyStore, kubectl: Kubectl, write: str) -> None:
    with pytest.raises(ObjectConflictError):
        await WRITES[write](store, kubectl.namespace, "0b1c2d3e-0000-4000-8000-000000000000")


async def test_release_spares_a_recreated_object(store: ProxyStore, kubectl: Kubectl) -> None:
    former = await apply(kubectl)
    await kubectl.acall("delete", "proxy", "one")
    await apply(kubectl, finalizers=[names.FINALIZER])
    await store.release(kubectl.namespace, "one", former)
    assert (await current(store, kubectl)).finalizers == (names.FINALIZER,)
    await clear_finalizers(kubectl)


async def test_the_spec_hash_is_recorded_beside_other_annotations(store: ProxyStore, kubectl: Kubectl) -> None:
    uid = await apply(kubectl, annotations={"mine": "x"})
    for value in ("v1-a", "v1-b"):
        await store.record_spec_hash(kubectl.namespace, "one", uid, value)
        found = await current(store, kubectl)
        assert found.annotations[names.ANNOTATION_SPEC_HASH] == value
        assert found.annotations["mine"] == "x"
        assert found.generation == 1


async def test_a_status_is_replaced_as_a_whole(store: ProxyStore, kubectl: Kubectl) -> None:
    uid = await apply(kubectl)
    condition = Condition(type="Ready", status="True", reason="Ready", last_transition_time=NOW)
    other = Condition(type="Odd", status="False", reason="Odd", last_transition_time=NOW)
    first = ProxyStatus(
        phase="Ready", ip="10.0.0.1", latency_millis=4, handled_retry="1", conditions=(condition, other)
    )
    second = ProxyStatus(phase="Deleting", conditions=(dataclasses.replace(condition, status="False"),))
    for status in (first, second, ProxyStatus()):
        await store.write_status(kubectl.namespace, "one", uid, status)
        found = await current(store, kubectl)
        assert found.status == status
        assert found.generation == 1


async def test_every_kind_of_status_reads_back_as_written(store: ProxyStore, kubectl: Kubectl) -> None:
    uid = await apply(kubectl)
    status = ProxyStatus()
    health = Health(
        status="True",
        reason="ProbeSucceeded",
        latency_millis=42,
        exit_ip="2001:db8::1",
        checked_at=NOW,
    )
    for reason in Provisioned:
        for provisioned in (False, True):
            facts = Facts(
                managed=True,
                provisioned=provisioned,
                deleting=reason is Provisioned.DELETING,
                reason=reason,
                message="é🦑 " * 500,
                latched=reason is Provisioned.PERMANENT_ERROR,
                failed_cause="generation=1,spec=v1-a,entry=e,retry=",
                ip="10.0.0.1",
                provider_id="box/1",
                incarnation="i",
                evaluated_generation=1 if provisioned else 0,
                handled_rotate="1",
                health=health,
            )
            status = build_status(status, facts, NOW)
            await store.write_status(kubectl.namespace, "one", uid, status)
            assert (await current(store, kubectl)).status == status


async def test_a_status_that_says_the_same_leaves_the_version_alone(store: ProxyStore, kubectl: Kubectl) -> None:
    uid = await apply(kubectl)
    status = ProxyStatus(phase="Pending")
    await store.write_status(kubectl.namespace, "one", uid, status)
    version = (await current(store, kubectl)).resource_version
    await store.write_status(kubectl.namespace, "one", uid, status)
    assert (await current(store, kubectl)).resource_version == version


async def test_a_status_against_the_schema_is_no_conflict(store: ProxyStore, kubectl: Kubectl) -> None:
    uid = await apply(kubectl)
    with pytest.raises(ClusterError, match=r"status\.phase") as refused:
        await store.write_status(kubectl.namespace, "one", uid, ProxyStatus(phase="Nonsense"))
    assert not isinstance(refused.value, ObjectConflictError)
    assert refused.value.status == 422
    assert (await current(store, kubectl)).status == ProxyStatus()


def test_an_empty_status_is_an_empty_object() -> None:
    assert status_to_object(ProxyStatus()) == {}
