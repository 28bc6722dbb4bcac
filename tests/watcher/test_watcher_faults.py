"""The watcher before an API server that shows faults a real one does not show on demand."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from cluster.connection import PAGE_SIZE, ClusterConnection
from cluster.watching import WatchSettings
from model.messages import Poke
from tests.cluster.scripted_api import ScriptedApi, event, item, open_stream, refusal
from tests.e2e.polling import eventually
from watcher import watcher as watcher_module
from watcher.watcher import Watcher

PACE = WatchSettings(relist=60.0, server_timeout=30.0, idle_timeout=20.0, retry_first=0.05, retry_limit=0.4)


class Cluster:
    """Proxies and Secrets as a list answers them, in pages."""

    def __init__(self, api: ScriptedApi) -> None:
        self.proxies: dict[str, dict[str, Any]] = {}
        self.secrets_refusal = 0
        self.page_refusals: dict[int, list[int]] = {}
        self.paths: set[str] = set()
        self.news: asyncio.Queue[bytes] = asyncio.Queue()
        api.on_list, api.on_watch = self._list, self._watch

    def put(self, name: str, **changes: Any) -> dict[str, Any]:
        endpoint = {"mode": "External", "endpoint": {"host": "127.0.0.1"}}
        self.proxies[name] = {**item(name), "spec": endpoint, **changes}
        return self.proxies[name]

    async def _list(self, request: web.Request) -> web.StreamResponse:
        self.paths.add(request.path)
        if request.path.endswith("/secrets"):
            return refusal(self.secrets_refusal) if self.secrets_refusal else _page([], "")
        start = int(request.query.get("continue", "0"))
        refusals = self.page_refusals.get(start // PAGE_SIZE + 1, [])
        if refusals:
            return refusal(refusals.pop(0))
        end = start + int(request.query["limit"])
        return _page(list(self.proxies.values())[start:end], str(end) if end < len(self.proxies) else "")

    async def _watch(self, request: web.Request) -> web.StreamResponse:
        response = await open_stream(request)
        with contextlib.suppress(ConnectionError):
            while not request.path.endswith("/secrets"):
                await response.write(await self.news.get())
            while True:
                await asyncio.sleep(0.1)
                await response.write(b"\n")
        return response


def _page(items: list[Any], token: str) -> web.Response:
    metadata = {"resourceVersion": "7"} | ({"continue": token} if token else {})
    return web.json_response({"kind": "List", "metadata": metadata, "items": items})


class Fleet:
    """A watcher before a cluster, and what it sent."""

    def __init__(self, watcher: Watcher, sent: list[Poke]) -> None:
        self.watcher = watcher
        self.sent = sent

    @property
    def poked(self) -> set[str]:
        return {poke.name for poke in self.sent}

    async def until_poked(self, *names: str) -> None:
        async def poked() -> set[str]:
            return self.poked

        await eventually(poked, lambda found: found >= set(names))

    async def until_ready(self) -> None:
        async def is_ready() -> bool:
            return self.watcher.is_ready

        await eventually(is_ready)


@contextlib.asynccontextmanager
async def fleet(api: ScriptedApi, namespace: str = "", pace: WatchSettings = PACE) -> AsyncIterator[Fleet]:
    sent: list[Poke] = []

    async def send(poke: Poke) -> None:
        sent.append(poke)

    connection = await ClusterConnection.connect(api.kubeconfig)

    async def running() -> set[tuple[str, str]]:
        return set(watcher.view.keys)

    watcher = Watcher(connection, send=send, running_workflows=running, settings=pace, namespace=namespace)
    task = asyncio.create_task(watcher.run())
    try:
        yield Fleet(watcher, sent)
        assert not task.done(), "the watcher has ended"
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await connection.close()


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[ScriptedApi]:
    async with ScriptedApi(tmp_path) as scripted:
        yield scripted


BAD = {
    "a spec of another type": {"spec": "nothing"},
    "a field of another type": {"spec": {"mode": "Managed", "cloudInit": {"secretRef": {"name": ["x"]}}}},
    "a condition without type": {"status": {"conditions": [{"status": "True"}]}},
    "no uid": {"metadata": {"namespace": "ns", "name": "bad", "resourceVersion": "1"}},
}


@pytest.mark.parametrize("changes", BAD.values(), ids=BAD.keys())
async def test_an_object_that_is_no_proxy_stops_nobody_else(
    api: ScriptedApi, changes: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    cluster = Cluster(api)
    cluster.put("before")
    bad = cluster.put("bad", **changes)
    cluster.put("later")
    async with fleet(api) as found:
        await found.until_poked("before", "later")
        await cluster.news.put(event("MODIFIED", bad))
        await cluster.news.put(event("ADDED", cluster.put("new")))
        await found.until_poked("new")
        assert found.poked == {"before", "later", "new"}
        errors = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
        assert len(errors) == 2
        assert all("ns/bad" in message for message in errors)
        await cluster.news.put(event("MODIFIED", cluster.put("bad")))
        await found.until_poked("bad")


async def test_an_object_that_becomes_unreadable_is_not_taken_for_gone(api: ScriptedApi) -> None:
    cluster = Cluster(api)
    cluster.put("one")
    async with fleet(api, pace=WatchSettings(relist=1.0, end_grace=0.1, retry_first=0.05)) as found:
        await found.until_poked("one")
        await cluster.news.put(event("MODIFIED", cluster.put("one", spec="nothing")))
        lists = len(api.lists)

        async def listed_again() -> bool:
            # Two collections, so two further listings of each.
            return len(api.lists) >= lists + 4

        await eventually(listed_again)
        assert [(poke.name, bool(poke.fingerprint)) for poke in found.sent] == [("one", True)]


@pytest.mark.parametrize("odd", [{"metadata": None}, {"metadata": {"name": 5}}, {"metadata": []}, {"kind": "Proxy"}])
async def test_an_event_without_a_name_breaks_the_watch_and_everything_is_listed_anew(
    api: ScriptedApi, odd: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    cluster = Cluster(api)
    cluster.put("one")
    async with fleet(api) as found:
        await found.until_poked("one")
        cluster.put("two")
        await cluster.news.put(event("MODIFIED", odd))
        await found.until_poked("two")
    assert "the watch of Proxies is broken and begins anew" in caplog.text


async def test_forbidden_secrets_do_not_keep_proxies_from_being_poked(
    api: ScriptedApi, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(watcher_module, "_SECRETS_FIRST_SECONDS", 0.3)
    cluster = Cluster(api)
    cluster.secrets_refusal = 403
    cluster.put("one")
    async with fleet(api) as found:
        await found.until_poked("one")
        await cluster.news.put(event("ADDED", cluster.put("two")))
        await found.until_poked("two")
        cluster.secrets_refusal = 0
        assert len(found.sent) == 2
    assert "labelled Secrets could not be listed yet" in caplog.text
    assert "HTTP 403" in caplog.text


@pytest.mark.parametrize(("namespace", "scope"), [("", ""), ("crawl", "/namespaces/crawl")])
async def test_only_what_is_in_scope_is_asked_for(api: ScriptedApi, namespace: str, scope: str) -> None:
    cluster = Cluster(api)
    async with fleet(api, namespace) as found:
        await found.until_ready()
    assert cluster.paths == {f"/apis/crawl.example.com/v1alpha1{scope}/proxies", f"/api/v1{scope}/secrets"}
    secrets = [query for query in api.lists if "labelSelector" in query]
    assert {query["labelSelector"] for query in secrets} == {"crawl.example.com/cloud-init=true"}


async def test_1200_proxies_are_all_seen_once_though_pages_expire_and_fail(api: ScriptedApi) -> None:
    cluster = Cluster(api)
    for number in range(1200):
        cluster.put(f"p{number:04}")
    cluster.page_refusals = {2: [410], 3: [500]}
    async with fleet(api) as found:
        await found.until_ready()
        await found.until_poked(*cluster.proxies)
        assert len(found.sent) == 1200
        assert len(found.watcher.view.keys) == 1200
    pages = [query.get("continue") for query in api.lists if "labelSelector" not in query]
    assert pages == [None, "500", None, "500", "1000", None, "500", "1000"]


async def test_a_listing_that_fails_half_way_takes_nobody_for_gone(api: ScriptedApi) -> None:
    cluster = Cluster(api)
    for number in range(1200):
        cluster.put(f"p{number:04}")
    async with fleet(api, pace=WatchSettings(relist=1.0, end_grace=0.1, retry_first=0.05, retry_limit=0.2)) as found:
        await found.until_poked(*cluster.proxies)
        cluster.page_refusals = {3: [500] * 3, 2: [410, 500]}

        async def refused() -> bool:
            return not any(cluster.page_refusals.values())

        await eventually(refused)
        assert len(found.sent) == 1200
