"""An endless, gap-free view: of a real API server, and through the faults that one does not show on demand."""

import asyncio
import contextlib
import dataclasses
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

import cluster.connection
from cluster.connection import ClusterConnection
from cluster.proxies import collection_path
from cluster.watching import Change, ChangeType, CollectionWatch, WatchSettings
from tests.cluster.scripted_api import ScriptedApi, event, item, open_stream, page, refusal, status_object
from tests.support.kubectl import Kubectl, proxy

QUICK = WatchSettings(relist=60.0, server_timeout=30.0, idle_timeout=20.0, retry_first=0.05, retry_limit=0.4)
MANAGED = {"mode": "Managed", "provider": "box"}
DEADLINE = 20.0


class Recorder:
    """Takes in the changes of a watch, and answers what the view is."""

    def __init__(self) -> None:
        self.changes: list[Change] = []
        self._arrived = asyncio.Event()

    async def follow(self, watch: CollectionWatch) -> None:
        async with aclosing(watch.changes()) as changes:
            async for change in changes:
                self.changes.append(change)
                self._arrived.set()

    def count(self, kind: ChangeType) -> int:
        return sum(change.type is kind for change in self.changes)

    @property
    def words(self) -> list[str]:
        return [" ".join([change.type, name_of(change)]).rstrip() for change in self.changes]

    @property
    def view(self) -> set[str]:
        """What a reader of the changes knows to be there."""
        known: set[str] = set()
        listed: set[str] = set()
        for change in self.changes:
            if change.type is ChangeType.LISTING:
                listed = set()
            elif change.type is ChangeType.SEEN:
                known.add(name_of(change))
                listed.add(name_of(change))
            elif change.type is ChangeType.DELETED:
                known.discard(name_of(change))
            elif change.type is ChangeType.LISTED:
                known &= listed
        return known

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(DEADLINE):
            while not condition():
                self._arrived.clear()
                await self._arrived.wait()


def name_of(change: Change) -> str:
    return str((change.body or {}).get("metadata", {}).get("name", ""))


@asynccontextmanager
async def following(
    connection: ClusterConnection, settings: WatchSettings = QUICK, path: str = "/things", selector: str = ""
) -> AsyncIterator[Recorder]:
    recorder = Recorder()
    watching_it = asyncio.create_task(recorder.follow(CollectionWatch(connection, path, settings, selector)))
    try:
        yield recorder
        assert not watching_it.done(), "the watch has ended"
    finally:
        watching_it.cancel()
        await asyncio.gather(watching_it, return_exceptions=True)
        if not watching_it.cancelled():
            watching_it.result()


class TestRealServer:
    async def test_a_listing_is_followed_by_what_happens(
        self, connection: ClusterConnection, kubectl: Kubectl, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(cluster.connection, "PAGE_SIZE", 2)
        await kubectl.acall("apply", "-f", "-", stdin=manifests("a", "b", "c"))
        async with following(connection, path=collection_path(kubectl.namespace)) as recorder:
            await recorder.until(lambda: recorder.count(ChangeType.LISTED) == 1)
            assert recorder.words == ["Listing", "Seen a", "Seen b", "Seen c", "Listed"]
            await kubectl.acall("apply", "-f", "-", stdin=manifests("d"))
            await recorder.until(lambda: "Seen d" in recorder.words)
            await kubectl.acall("annotate", "proxy", "a", "x=y")
            await recorder.until(lambda: recorder.words.count("Seen a") == 2)
            await kubectl.acall("delete", "proxy", "b")
            await recorder.until(lambda: "Deleted b" in recorder.words)
            assert recorder.view == {"a", "c", "d"}
            assert recorder.count(ChangeType.BROKEN) == 0

    async def test_everything_is_listed_anew_after_a_while(
        self, connection: ClusterConnection, kubectl: Kubectl
    ) -> None:
        await kubectl.acall("apply", "-f", "-", stdin=manifests("a"))
        settings = dataclasses.replace(QUICK, relist=1.0)
        async with following(connection, settings, collection_path(kubectl.namespace)) as recorder:
            await recorder.until(lambda: recorder.count(ChangeType.LISTED) == 3)
            assert recorder.words == ["Listing", "Seen a", "Listed"] * 3
            await kubectl.acall("delete", "proxy", "a")
            await recorder.until(lambda: recorder.words[-2:] == ["Listing", "Listed"])
            assert recorder.view == set()

    async def test_only_what_carries_the_label_is_seen(self, connection: ClusterConnection, kubectl: Kubectl) -> None:
        path = f"/api/v1/namespaces/{kubectl.namespace}/secrets"
        async with following(connection, path=path, selector="wanted=true") as recorder:
            await recorder.until(lambda: recorder.count(ChangeType.LISTED) == 1)
            await kubectl.acall("create", "secret", "generic", "other")
            await kubectl.acall("create", "secret", "generic", "one")
            await kubectl.acall("label", "secret", "one", "wanted=true")
            await recorder.until(lambda: "Seen one" in recorder.words)
            await kubectl.acall("label", "secret", "one", "wanted-")
            await recorder.until(lambda: "Deleted one" in recorder.words)
            assert not any("other" in words for words in recorder.words)

    async def test_a_version_too_old_leads_to_a_new_listing(
        self, connection: ClusterConnection, kubectl: Kubectl, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The API server of the session keeps few versions of a fresh collection; version 1 is none of them."""
        asked: list[Any] = []
        stream = connection.stream

        def from_the_beginning(path: str, **arguments: Any) -> Any:
            if not asked:
                arguments["query"] = {**arguments["query"], "resourceVersion": "1"}
            asked.append(arguments)
            return stream(path, **arguments)

        monkeypatch.setattr(connection, "stream", from_the_beginning)
        await kubectl.acall("apply", "-f", "-", stdin=manifests("a"))
        async with following(connection, path=collection_path(kubectl.namespace)) as recorder:
            await kubectl.acall("apply", "-f", "-", stdin=manifests("b"))
            await recorder.until(lambda: recorder.view == {"a", "b"})


def manifests(*names: str) -> str:

    return "\n".join(json.dumps(proxy(name, MANAGED)) for name in names)


class World:
    """Objects that come and go behind a scripted server that ends every stream as soon as it has told the news."""

    def __init__(self) -> None:
        self.version = 1
        self.objects: dict[str, int] = {}
        self.log: list[tuple[int, str, str]] = []

    def put(self, name: str) -> None:
        self.version += 1
        kind = "MODIFIED" if name in self.objects else "ADDED"
        self.objects[name] = self.version
        self.log.append((self.version, kind, name))

    def remove(self, name: str) -> None:
        self.version += 1
        del self.objects[name]
        self.log.append((self.version, "DELETED", name))

    async def list(self, _request: web.Request) -> web.StreamResponse:
        return page(str(self.version), *self.objects)

    async def watch(self, request: web.Request) -> web.StreamResponse:
        since = int(request.query["resourceVersion"])
        news = [event(kind, item(name, str(at))) for at, kind, name in self.log if at > since]
        return await open_stream(request, *news)


async def test_a_server_that_ends_every_stream_at_once_costs_nothing_and_loses_nothing(
    scripted: ScriptedApi, to_scripted: ClusterConnection
) -> None:
    world = World()
    world.put("a")
    scripted.on_list, scripted.on_watch = world.list, world.watch
    settings = dataclasses.replace(QUICK, retry_first=0.1)
    began = time.monotonic()
    async with following(to_scripted, settings) as recorder:
        for number in range(10):
            world.put(f"n{number}")
            await asyncio.sleep(0.05)
            world.put("a")
        world.remove("n3")
        await recorder.until(lambda: recorder.view == set(world.objects))
        took = time.monotonic() - began
    assert len(scripted.lists) == 1
    assert len(scripted.watches) <= took / settings.retry_first + 2
    told = [words for words in recorder.words if words.startswith(("Seen n", "Deleted"))]
    assert told == [f"Seen n{number}" for number in range(10)] + ["Deleted n3"]


async def test_what_went_while_the_stream_was_expired_is_gone_afterwards(
    scripted: ScriptedApi, to_scripted: ClusterConnection
) -> None:
    world = World()
    world.put("a")
    world.put("b")
    scripted.on_list = world.list

    async def expired_inside(request: web.Request) -> web.StreamResponse:
        world.remove("a")
        scripted.on_watch = expired_outside
        return await open_stream(request, event("ERROR", status_object(410, "too old resource version")))

    async def expired_outside(_request: web.Request) -> web.StreamResponse:
        world.put("c")
        scripted.on_watch = scripted.hang
        return refusal(410, "too old resource version")

    scripted.on_watch = expired_inside
    async with following(to_scripted) as recorder:
        await recorder.until(lambda: recorder.count(ChangeType.LISTED) == 3)
        assert recorder.view == {"b", "c"}
        assert recorder.count(ChangeType.BROKEN) == 0
    assert len(scripted.lists) == 3


async def test_a_server_whose_versions_are_always_too_old_is_not_asked_in_a_hot_loop(
    scripted: ScriptedApi, to_scripted: ClusterConnection
) -> None:
    async def expired(_request: web.Request) -> web.StreamResponse:
        return refusal(410)

    scripted.on_watch = expired
    async with following(to_scripted, dataclasses.replace(QUICK, retry_limit=10.0)):
        await asyncio.sleep(1.5)
    # With waits of at least 25, 50, 100, 200, 400 and 800 ms no more than 8 fit.
    assert 3 <= len(scripted.lists) <= 8


async def test_an_error_in_the_stream_is_told_and_waited_out_ever_longer(
    scripted: ScriptedApi, to_scripted: ClusterConnection
) -> None:
    async def broken(request: web.Request) -> web.StreamResponse:
        return await open_stream(request, event("ERROR", status_object(500, "etcd is unhappy")))

    scripted.on_watch = broken
    async with following(to_scripted, dataclasses.replace(QUICK, retry_limit=10.0)) as recorder:
        await asyncio.sleep(1.5)
        assert 3 <= recorder.count(ChangeType.BROKEN) <= 8
        errors = {change.error for change in recorder.changes if change.type is ChangeType.BROKEN}
        assert errors == {"watch: etcd is unhappy"}
        scripted.on_watch = scripted.hang
        listed = recorder.count(ChangeType.LISTED)
        await recorder.until(lambda: recorder.count(ChangeType.LISTED) > listed)


async def test_a_bookmark_moves_the_version_and_is_no_object(
    scripted: ScriptedApi, to_scripted: ClusterConnection
) -> None:
    scripted.on_list = first_page("3", "a")

    async def bookmark(request: web.Request) -> web.StreamResponse:
        scripted.on_watch = scripted.hang
        return await open_stream(request, event("BOOKMARK", {"kind": "X", "metadata": {"resourceVersion": "9"}}))

    scripted.on_watch = bookmark
    async with following(to_scripted) as recorder:
        await until(lambda: len(scripted.watches) == 2)
        assert recorder.words == ["Listing", "Seen a", "Listed"]
    assert [query["resourceVersion"] for query in scripted.watches] == ["3", "9"]
    assert {query["allowWatchBookmarks"] for query in scripted.watches} <= {"true", "True"}


async def test_a_silent_stream_counts_as_broken_and_everything_is_listed_anew(
    scripted: ScriptedApi, to_scripted: ClusterConnection
) -> None:
    world = World()
    world.put("a")
    scripted.on_list = world.list
    async with following(to_scripted, dataclasses.replace(QUICK, idle_timeout=0.3)) as recorder:
        await recorder.until(lambda: recorder.count(ChangeType.LISTED) == 1)
        world.put("b")
        await recorder.until(lambda: recorder.view == {"a", "b"})
        assert recorder.count(ChangeType.BROKEN) >= 1


async def test_a_stream_that_is_kept_alive_beyond_its_time_is_ended_from_here(
    scripted: ScriptedApi, to_scripted: ClusterConnection
) -> None:
    world = World()
    scripted.on_list = world.list

    async def endless(request: web.Request) -> web.StreamResponse:
        response = await open_stream(request)
        with contextlib.suppress(ConnectionError):
            while True:
                await response.write(event("BOOKMARK", {"metadata": {"resourceVersion": "1"}}))
                await asyncio.sleep(0.05)
        return response

    scripted.on_watch = endless
    pace = dataclasses.replace(QUICK, relist=1.0, end_grace=0.2)
    async with following(to_scripted, pace) as recorder:
        await recorder.until(lambda: recorder.count(ChangeType.LISTED) == 2)
        assert recorder.count(ChangeType.BROKEN) == 0


@pytest.mark.parametrize("line", [b"garbage\n", b'{"type": "ADDED", "object": {"metadata": {"na', b"[1]\n"])
async def test_a_line_that_is_no_event_is_waited_out(
    scripted: ScriptedApi, to_scripted: ClusterConnection, line: bytes
) -> None:
    world = World()
    scripted.on_list = world.list

    async def torn(request: web.Request) -> web.StreamResponse:
        world.put("b")
        scripted.on_watch = scripted.hang
        return await open_stream(request, event("ADDED", item("a")), line)

    scripted.on_watch = torn
    async with following(to_scripted) as recorder:
        await recorder.until(lambda: recorder.count(ChangeType.LISTED) == 2)
        assert recorder.words[:4] == ["Listing", "Listed", "Seen a", "Broken"]
        assert recorder.view == {"b"}


@pytest.mark.parametrize("bad", [b"<html>", b"{}", b'{"metadata": {}}', b'{"metadata": null, "items": []}'])
async def test_a_list_that_is_none_is_waited_out(
    scripted: ScriptedApi, to_scripted: ClusterConnection, bad: bytes
) -> None:
    async def other(_request: web.Request) -> web.StreamResponse:
        scripted.on_list = first_page("2", "a")
        return web.Response(body=bad, content_type="application/json")

    scripted.on_list = other
    async with following(to_scripted) as recorder:
        await recorder.until(lambda: recorder.count(ChangeType.LISTED) == 1)
        assert recorder.words[:2] == ["Listing", "Broken"]
        assert recorder.view == {"a"}


async def test_a_list_that_expires_between_pages_begins_anew(
    scripted: ScriptedApi, to_scripted: ClusterConnection
) -> None:
    async def expiring(request: web.Request) -> web.StreamResponse:
        if "continue" not in request.query:
            return page("3", "a", "gone", token="second")
        scripted.on_list = first_page("4", "a", "b")
        return refusal(410, "The provided continue parameter is too old")

    scripted.on_list = expiring
    async with following(to_scripted) as recorder:
        await recorder.until(lambda: recorder.count(ChangeType.LISTED) == 1)
        assert recorder.words == ["Listing", "Seen a", "Seen gone", "Listing", "Seen a", "Seen b", "Listed"]
    assert [query.get("continue") for query in scripted.lists] == [None, "second", None]


async def test_a_list_that_fails_half_way_is_not_called_complete(
    scripted: ScriptedApi, to_scripted: ClusterConnection
) -> None:
    async def failing(request: web.Request) -> web.StreamResponse:
        match request.query.get("continue"):
            case None:
                return page("3", "a", token="second")
            case "second":
                return page("3", "b", token="third")
        return refusal(500)

    scripted.on_list = failing
    async with following(to_scripted) as recorder:
        await recorder.until(lambda: recorder.count(ChangeType.BROKEN) == 2)
        assert recorder.count(ChangeType.LISTED) == 0
        scripted.on_list = first_page("4", "a")
        await recorder.until(lambda: recorder.count(ChangeType.LISTED) == 1)
        assert recorder.view == {"a"}


def first_page(version: str, *names: str) -> Any:
    async def handler(_request: web.Request) -> web.StreamResponse:
        return page(version, *names)

    return handler


async def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        await asyncio.sleep(0.01)
