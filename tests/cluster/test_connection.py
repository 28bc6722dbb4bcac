"""One connection: deadlines, refusals, credentials."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from kubernetes.aio.config import incluster_config

from cluster.connection import ClusterConnection
from cluster.errors import (
    ClusterError,
    ClusterUnavailableError,
    ObjectConflictError,
    ObjectNotFoundError,
    ResourceExpiredError,
)
from model.errors import ConfigurationError
from tests.cluster.scripted_api import (
    Handler,
    ScriptedApi,
    event,
    item,
    open_stream,
    page,
    refusal,
    write_kubeconfig,
)
from tests.probing.certificates import Authority
from tests.support.listening import listen


def answers(status: int, body: bytes, content_type: str = "application/json") -> Handler:
    async def handler(_request: web.Request) -> web.Response:
        return web.Response(status=status, body=body, content_type=content_type)

    return handler


async def test_a_silent_server_is_given_up_on(scripted: ScriptedApi, to_scripted: ClusterConnection) -> None:
    scripted.on_list = scripted.silence
    began = time.monotonic()
    with pytest.raises(ClusterUnavailableError, match="GET /x: no answer in time"):
        await to_scripted.request("GET", "/x", timeout=0.3)
    assert time.monotonic() - began < 3


async def test_a_server_that_never_accepts_a_byte_is_given_up_on(tmp_path: Path) -> None:
    with listen("127.0.0.1") as stranger:
        config = tmp_path / "kubeconfig"
        write_kubeconfig(config, f"http://127.0.0.1:{stranger.getsockname()[1]}")
        connection = await ClusterConnection.connect(config)
        try:
            with pytest.raises(ClusterUnavailableError, match="no answer in time"):
                await connection.request("GET", "/x", timeout=0.3)
        finally:
            await connection.close()


async def test_a_body_that_trickles_is_given_up_on(scripted: ScriptedApi, to_scripted: ClusterConnection) -> None:
    async def trickle(request: web.Request) -> web.StreamResponse:
        response = await open_stream(request, b'{"a": "')
        while True:
            await response.write(b"x")
            await asyncio.sleep(0.05)

    scripted.on_list = trickle
    with pytest.raises(ClusterUnavailableError, match="no answer in time"):
        await to_scripted.request("GET", "/x", timeout=0.4)


async def test_a_closed_port_is_unavailable(tmp_path: Path) -> None:
    with listen("127.0.0.1") as stranger:
        port = stranger.getsockname()[1]
    config = tmp_path / "kubeconfig"
    write_kubeconfig(config, f"http://127.0.0.1:{port}")
    connection = await ClusterConnection.connect(config)
    try:
        with pytest.raises(ClusterUnavailableError, match="GET /x: ClientConnectorError: Cannot connect"):
            await connection.request("GET", "/x")
        with pytest.raises(ClusterUnavailableError, match="WATCH /x: ClientConnectorError: Cannot connect"):
            await anext(connection.stream("/x", query={}, idle_timeout=1.0))
    finally:
        await connection.close()


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (404, ObjectNotFoundError),
        (409, ObjectConflictError),
        (410, ResourceExpiredError),
        (403, ClusterError),
        (500, ClusterError),
        (503, ClusterError),
    ],
)
async def test_a_refusal_has_the_class_of_its_status(
    scripted: ScriptedApi, to_scripted: ClusterConnection, status: int, kind: type[ClusterError]
) -> None:
    async def refuse(_request: web.Request) -> web.Response:
        return refusal(status, "said so")

    scripted.on_list = refuse
    with pytest.raises(ClusterError, match=f"GET /x: HTTP {status} said so") as refused:
        await to_scripted.request("GET", "/x")
    assert type(refused.value) is kind
    assert refused.value.status == status


async def test_the_text_of_a_refusal_is_cleaned(scripted: ScriptedApi, to_scripted: ClusterConnection) -> None:
    page = b"<html>Authorization: Bearer S3cr3t-xyz, request id: 77aa03\n" + b"<p>sorry</p>\n" * 100_000
    scripted.on_list = answers(500, page, "text/html")
    with pytest.raises(ClusterError, match="HTTP 500 <html>Authorization: Bearer ") as refused:
        await to_scripted.request("GET", "/x")
    text = str(refused.value)
    assert "S3cr3t" not in text
    assert "77aa03" not in text
    assert len(text.encode()) <= 1024


@pytest.mark.parametrize("body", [b"", b"<html>sign in here</html>", b"[]", b"null", b'{"items": [', b"\xff\xfe"])
async def test_a_success_that_is_no_object_is_somebody_else_answering(
    scripted: ScriptedApi, to_scripted: ClusterConnection, body: bytes
) -> None:
    scripted.on_list = answers(200, body)
    with pytest.raises(ClusterUnavailableError, match="HTTP 200 with something that is no JSON object"):
        await to_scripted.request("GET", "/x")


@pytest.mark.parametrize(
    "body", [b"{}", b'{"metadata": {}, "items": []}', b'{"metadata": {"resourceVersion": "1"}}', b'{"metadata": null}']
)
async def test_what_is_no_list_is_not_taken_for_an_empty_one(
    scripted: ScriptedApi, to_scripted: ClusterConnection, body: bytes
) -> None:
    scripted.on_list = answers(200, body)
    with pytest.raises(ClusterUnavailableError, match="GET /x: the answer is no list"):
        await anext(to_scripted.pages("/x"))


async def events_of(connection: ClusterConnection, idle_timeout: float = 5.0) -> list[Any]:
    return [found async for found in connection.stream("/x", query={}, idle_timeout=idle_timeout)]


async def test_a_stream_yields_events_until_the_server_ends_it(
    scripted: ScriptedApi, to_scripted: ClusterConnection
) -> None:
    async def watch(request: web.Request) -> web.StreamResponse:
        return await open_stream(request, event("ADDED", item("a")), b"\n", event("BOOKMARK", item("b")))

    scripted.on_watch = watch
    assert [found["type"] for found in await events_of(to_scripted)] == ["ADDED", "BOOKMARK"]


@pytest.mark.parametrize(
    "line",
    [
        b"garbage\n",
        b'{"type": "ADDED", "object": {"meta',
        b"[]\n",
        b"null\n",
        b'{"type": "ADDED"}\n',
        b'{"type": "ADDED", "object": []}\n',
        b"\xff\xfe\n",
        b"x" * (5 * 2**20),
    ],
    ids=lambda line: repr(line[:16]),
)
async def test_a_line_that_is_no_event_breaks_the_stream_and_nothing_else(
    scripted: ScriptedApi, to_scripted: ClusterConnection, line: bytes
) -> None:
    async def watch(request: web.Request) -> web.StreamResponse:
        return await open_stream(request, event("ADDED", item("a")), line)

    scripted.on_watch = watch
    stream = to_scripted.stream("/x", query={}, idle_timeout=5.0)
    assert (await anext(stream))["object"]["metadata"]["name"] == "a"
    with pytest.raises(ClusterUnavailableError, match="WATCH /x") as broken:
        await anext(stream)
    assert len(str(broken.value)) < 500


@pytest.mark.parametrize(
    ("body", "kind", "status"),
    [
        ({"kind": "Status", "code": 410, "message": "too old"}, ResourceExpiredError, 410),
        ({"kind": "Status", "code": 500, "message": "boom"}, ClusterError, 500),
        ({"kind": "Status", "code": "500"}, ClusterError, 0),
        ({}, ClusterError, 0),
    ],
)
async def test_an_error_event_is_an_error(
    scripted: ScriptedApi,
    to_scripted: ClusterConnection,
    body: dict[str, Any],
    kind: type[ClusterError],
    status: int,
) -> None:
    async def watch(request: web.Request) -> web.StreamResponse:
        return await open_stream(request, event("ERROR", body))

    scripted.on_watch = watch
    with pytest.raises(ClusterError, match=f"watch: {body.get('message', 'ERROR event')}") as raised:
        await events_of(to_scripted)
    assert type(raised.value) is kind
    assert raised.value.status == status


async def test_a_silent_stream_is_broken(scripted: ScriptedApi, to_scripted: ClusterConnection) -> None:
    with pytest.raises(ClusterUnavailableError, match="no answer in time"):
        await events_of(to_scripted, idle_timeout=0.3)


async def test_a_refused_watch_has_the_class_of_its_status(
    scripted: ScriptedApi, to_scripted: ClusterConnection
) -> None:
    async def refuse(_request: web.Request) -> web.Response:
        return refusal(410, "too old")

    scripted.on_watch = refuse
    with pytest.raises(ResourceExpiredError, match="too old"):
        await events_of(to_scripted)


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "just words",
        "- a\n- list",
        "a: [unclosed",
        "apiVersion: v1\nkind: Config\ncurrent-context: nowhere\ncontexts: []\nclusters: []\nusers: []",
        "apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts: 5",
        "apiVersion: v1\nkind: Config\ncurrent-context: c\n"
        "contexts: [{name: c, context: {cluster: c, user: u}}]\n"
        "clusters: [{name: c, cluster: {server: https://127.0.0.1:1, certificate-authority-data: '%%%'}}]\n"
        "users: [{name: u, user: {}}]",
        "apiVersion: v1\nkind: Config\ncurrent-context: c\n"
        "contexts: [{name: c, context: {cluster: c, user: u}}]\n"
        "clusters: [{name: c, cluster: {server: https://127.0.0.1:1, certificate-authority: /nowhere/ca.crt}}]\n"
        "users: [{name: u, user: {}}]",
        "apiVersion: v1\nkind: Config\ncurrent-context: c\n"
        "contexts: [{name: c, context: {cluster: c, user: u}}]\n"
        "clusters: [{name: c, cluster: {server: https://127.0.0.1:1, certificate-authority-data: bm8gY2VydA==}}]\n"
        "users: [{name: u, user: {}}]",
    ],
    ids=["missing", "empty", "words", "list", "yaml", "context", "contexts", "base64", "ca-file", "ca"],
)
async def test_an_unusable_kubeconfig_is_told_in_one_line(tmp_path: Path, text: str | None) -> None:
    config = tmp_path / "kubeconfig"
    if text is not None:
        config.write_text(text)
    with pytest.raises(ConfigurationError, match=r"no access to a Kubernetes cluster .*kubeconfig") as refused:
        await ClusterConnection.connect(config)
    assert "\n" not in str(refused.value)
    assert "--kubeconfig" in str(refused.value)


async def test_without_any_credentials_the_ways_to_give_some_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "nothing"))
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(ConfigurationError, match="give --kubeconfig, set KUBECONFIG or run in a Pod"):
        await ClusterConnection.connect()


async def test_a_proxy_of_the_environment_is_not_asked(
    scripted: ScriptedApi, to_scripted: ClusterConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    assert (await to_scripted.request("GET", "/x"))["kind"] == "List"


class TokenGuard:
    """Answers only whoever carries the token of the moment."""

    def __init__(self, token: str) -> None:
        self.token = token
        self.seen: list[str] = []

    def only(self, handler: Handler) -> Handler:
        async def guarded(request: web.Request) -> web.StreamResponse:
            self.seen.append(request.headers.get("Authorization", ""))
            if self.seen[-1].lower() != f"bearer {self.token}":
                return refusal(401, "Unauthorized")
            return await handler(request)

        return guarded


def rotate(directory: Path, token: str) -> None:
    """Put a token in place as the kubelet does: a new folder, and a link that moves to it in one step."""
    number = len(list(directory.glob("..data_*")))
    folder = directory / f"..data_{number}"
    folder.mkdir()
    (folder / "token").write_text(token)
    (directory / "..data_new").symlink_to(folder)
    (directory / "..data_new").rename(directory / "..data")
    if not (directory / "token").is_symlink():
        (directory / "token").symlink_to(Path("..data") / "token")


async def page_with_token(_request: web.Request) -> web.StreamResponse:
    return page("1", "a")


@pytest.fixture(params=["kubeconfig", "in-cluster"])
async def with_token(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[tuple[ScriptedApi, ClusterConnection, Path]]:
    """A server, and a connection whose token stands in a file; both ways in which a process may have one."""
    directory = tmp_path / "token"
    directory.mkdir()
    rotate(directory, "first")
    authority = Authority(tmp_path)
    in_cluster = request.param == "in-cluster"
    async with AsyncExitStack() as cleanup:
        tls = authority.server("127.0.0.1") if in_cluster else None
        api = await cleanup.enter_async_context(ScriptedApi(tmp_path, tls=tls))
        kubeconfig: Path | None = tmp_path / "with-token"
        if in_cluster:
            kubeconfig = None
            monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
            monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(api.port))
            monkeypatch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", str(directory / "token"))
            monkeypatch.setattr(incluster_config, "SERVICE_CERT_FILENAME", str(authority.path))
        else:
            assert kubeconfig is not None
            write_kubeconfig(kubeconfig, f"http://127.0.0.1:{api.port}", {"tokenFile": str(directory / "token")})
        connection = await ClusterConnection.connect(kubeconfig)
        cleanup.push_async_callback(connection.close)
        yield api, connection, directory


async def test_a_token_that_was_rotated_is_read_again_at_once(
    with_token: tuple[ScriptedApi, ClusterConnection, Path],
) -> None:
    api, connection, directory = with_token
    guard = TokenGuard("first")
    api.on_list = guard.only(page_with_token)
    await connection.request("GET", "/x")
    rotate(directory, "second")
    guard.token = "second"
    # Everybody who is refused at the same moment goes on.
    await asyncio.gather(*(connection.request("POST", "/x", body={"a": 1}) for _ in range(5)))
    assert [seen.lower() for seen in guard.seen[:1]] == ["bearer first"]
    assert len(guard.seen) <= 1 + 2 * 5
    await connection.request("GET", "/x")
    assert guard.seen[-1].lower() == "bearer second"


async def test_a_watch_that_meets_a_rotated_token_goes_on(
    with_token: tuple[ScriptedApi, ClusterConnection, Path],
) -> None:
    api, connection, directory = with_token
    guard = TokenGuard("first")

    async def one_event(request: web.Request) -> web.StreamResponse:
        return await open_stream(request, event("ADDED", item("a")))

    api.on_watch = guard.only(one_event)
    assert len(await events_of(connection)) == 1
    rotate(directory, "second")
    guard.token = "second"
    assert len(await events_of(connection)) == 1
    assert len(guard.seen) == 3


@pytest.mark.parametrize("content", ["first", "", None], ids=["the same token", "an empty file", "no file"])
async def test_a_token_that_is_refused_for_good_is_tried_once_and_told(
    with_token: tuple[ScriptedApi, ClusterConnection, Path], content: str | None
) -> None:
    api, connection, directory = with_token
    guard = TokenGuard("another")
    api.on_list = guard.only(page_with_token)
    if content is None:
        (directory / "token").unlink()
    else:
        rotate(directory, content)
    with pytest.raises(ClusterError, match="HTTP 401 Unauthorized") as refused:
        await connection.request("GET", "/x")
    assert refused.value.status == 401
    assert len(guard.seen) == 1
    rotate(directory, "another")
    await connection.request("GET", "/x")
