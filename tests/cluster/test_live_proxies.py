"""A complete list of the Proxies, or none."""

import asyncio

import pytest
from aiohttp import web

from cluster.connection import ClusterConnection
from cluster.errors import ClusterError, ResourceExpiredError, UnreadableObjectError
from cluster.live_proxies import LiveProxies
from model.collection import LiveProxy
from tests.cluster.scripted_api import ScriptedApi, item, page, refusal
from tests.support.kubectl import Kubectl, proxy


async def test_every_proxy_is_there_the_deleting_one_too(connection: ClusterConnection, kubectl: Kubectl) -> None:
    body = proxy("one", {"mode": "Managed", "provider": "box"})
    body["metadata"]["finalizers"] = ["crawl.example.com/finalizer"]
    other = proxy("two", {"mode": "External", "endpoint": {"host": "127.0.0.1"}})
    assert kubectl.apply(body, other).returncode == 0
    status = '{"status": {"providerID": "box/1", "incarnation": "i1", "phase": "Ready"}}'
    await kubectl.acall("patch", "px", "one", "--subresource=status", "--type=merge", "-p", status)
    await kubectl.acall("delete", "px", "one", "--wait=false")
    uids = {name: kubectl.get("px", name)["metadata"]["uid"] for name in ("one", "two")}
    try:
        live = await LiveProxies(connection, kubectl.namespace).by_uid()
    finally:
        await kubectl.acall("patch", "px", "one", "--type=merge", "-p", '{"metadata": {"finalizers": []}}')
    assert live == {
        uids["one"]: LiveProxy(
            namespace=kubectl.namespace, name="one", provider="box", provider_id="box/1", incarnation="i1"
        ),
        uids["two"]: LiveProxy(namespace=kubectl.namespace, name="two", provider=""),
    }


async def test_pages_are_read_to_the_end(scripted: ScriptedApi, to_scripted: ClusterConnection) -> None:
    async def on_list(request: web.Request) -> web.Response:
        token = request.query.get("continue", "")
        return page("7", f"p{token}", token="" if token == "2" else str(int(token or 0) + 1))

    scripted.on_list = on_list
    assert set(await LiveProxies(to_scripted).by_uid()) == {"uid-p", "uid-p1", "uid-p2"}
    assert all("resourceVersion" not in query for query in scripted.lists)


async def test_a_page_that_fails_fails_the_list(scripted: ScriptedApi, to_scripted: ClusterConnection) -> None:
    async def on_list(request: web.Request) -> web.Response:
        return refusal(500) if "continue" in request.query else page("7", "first", token="next")

    scripted.on_list = on_list
    with pytest.raises(ClusterError):
        await LiveProxies(to_scripted).by_uid()


async def test_a_page_that_expired_begins_the_list_anew(scripted: ScriptedApi, to_scripted: ClusterConnection) -> None:
    expired = asyncio.Event()

    async def on_list(request: web.Request) -> web.Response:
        if "continue" not in request.query:
            return page("8", "new", token="next") if expired.is_set() else page("7", "gone-meanwhile", token="next")
        if expired.is_set():
            return page("8", "second")
        expired.set()
        return refusal(410)

    scripted.on_list = on_list
    assert set(await LiveProxies(to_scripted).by_uid()) == {"uid-new", "uid-second"}


async def test_a_list_that_expires_again_and_again_is_given_up(
    scripted: ScriptedApi, to_scripted: ClusterConnection
) -> None:
    async def on_list(request: web.Request) -> web.Response:
        return refusal(410) if "continue" in request.query else page("7", "first", token="next")

    scripted.on_list = on_list
    with pytest.raises(ResourceExpiredError):
        await LiveProxies(to_scripted).by_uid()
    assert len(scripted.lists) == 6


async def test_an_object_that_nobody_can_read_is_live_and_one_without_uid_proves_nothing(
    scripted: ScriptedApi, to_scripted: ClusterConnection
) -> None:
    odd = item("odd") | {"spec": ["no", "spec"], "status": {"providerID": 7}}

    async def on_list(_request: web.Request) -> web.Response:
        return web.json_response({"kind": "List", "metadata": {"resourceVersion": "1"}, "items": [odd]})

    scripted.on_list = on_list
    assert await LiveProxies(to_scripted).by_uid() == {"uid-odd": LiveProxy(namespace="ns", name="odd", provider="")}
    odd["metadata"].pop("uid")
    with pytest.raises(UnreadableObjectError, match="without a uid"):
        await LiveProxies(to_scripted).by_uid()
