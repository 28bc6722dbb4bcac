"""Whatever a client sends, it gets a 4xx in the envelope."""

import gzip
import json
import logging
import random
from collections.abc import AsyncIterator

import pytest
from temporalio.client import Client

from tests.api.serving import Answer, Api, serving
from tests.leasing.brokers import broker_with

TOKEN = "tök-en".encode()


@pytest.fixture
async def api(temporal_client: Client) -> AsyncIterator[Api]:
    async with broker_with(temporal_client, 1) as broker, serving(broker) as api:
        yield api


def request(body: bytes, *headers: bytes, path: str = "/v1/leases", method: str = "POST") -> bytes:
    lines = [f"{method} {path} HTTP/1.1".encode(), b"Host: api", *headers, b"Content-Length: %d" % len(body)]
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


BODIES = [
    b"",
    b"[]",
    b"null",
    b'"x"',
    b"1",
    b"{",
    b"{} trailing",
    b'{"ttlSeconds":"60"}',
    b'{"ttlSeconds":1e309}',
    b'{"ttlSeconds":NaN}',
    b'{"ttlSeconds":-Infinity}',
    b'{"ttlSeconds":true}',
    b'{"ttlSeconds":-1}',
    b'{"ttlSeconds":1.0}',
    b'{"ttlSeconds":' + b"1" * 400 + b"}",
    b'{"ttlSeconds":' + b"1" * 5000 + b"}",
    b'{"other":' + b"1" * 5000 + b"}",
    b'{"selector":' + b"[" * 10_000 + b"]" * 10_000 + b"}",
    b'{"a":' * 9000 + b"1" + b"}" * 9000,
    b'{"target":"\\ud800"}',
    b'{"target":"\xff"}',
    b"\xff\xfe{\x00}\x00",
    b"\xef\xbb\xbf{}",
    b'{"selector":{"\\udc00":"x"}}',
    b'{"selector":"geo=eu"}',
    b'{"target":{}}',
    b"\x00" * 100,
]


@pytest.mark.parametrize("path", ["/v1/leases", "/v1/leases/AAAAAAAAAAAAAAAAAAAAAAAAAA/report"])
async def test_any_body_that_is_no_request_is_a_4xx(api: Api, path: str) -> None:
    for body in BODIES:
        answer = await api.raw(request(body, path=path))
        assert (answer.status, answer.code in ("invalid_body", "invalid_ttl", "invalid_result")) == (400, True), body


async def test_random_bodies_are_all_a_400(api: Api) -> None:
    source = random.Random(1)
    pieces = [b"{", b"}", b"[", b"]", b'"', b":", b",", b"ttlSeconds", b"selector", b"target", b"-", b"1", b"e", b"\\u"]
    for _ in range(2500):
        noise = [source.randbytes(3), *source.choices(pieces, k=source.randrange(12))]
        source.shuffle(noise)
        answer = await api.ask("POST", "/v1/leases", data=b"".join(noise))
        assert answer.status == 400
        assert answer.code == "invalid_body"


@pytest.mark.parametrize("charset", ["test", "utf-16", "latin-1", "\xff"])
async def test_another_charset_is_refused(api: Api, charset: str) -> None:
    header = b"Content-Type: application/json; charset=" + charset.encode("latin-1")
    answer = await api.raw(request(b"{}", header))
    assert (answer.status, answer.code) == (415, "unsupported_media_type")


@pytest.mark.parametrize(
    "content_type", ["application/x-www-form-urlencoded", "text/plain; charset=UTF-8", "no/sense;;"]
)
async def test_the_content_type_does_not_matter(api: Api, content_type: str) -> None:
    answer = await api.raw(request(b"{}", b"Content-Type: " + content_type.encode()))
    assert answer.status == 201


async def test_a_large_body_is_413_however_it_comes(api: Api) -> None:
    large = json.dumps({"target": "x" * 70_000}).encode()
    chunks = b"".join(
        b"%x\r\n%s\r\n" % (len(large[at : at + 4096]), large[at : at + 4096]) for at in range(0, len(large), 4096)
    )
    chunked = b"POST /v1/leases HTTP/1.1\r\nHost: api\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks + b"0\r\n\r\n"
    zipped = gzip.compress(b" " * 5_000_000 + b"{}")
    for sent in (request(large), chunked, request(zipped, b"Content-Encoding: gzip")):
        answer = await api.raw(sent)
        assert (answer.status, answer.code) == (413, "body_too_large")
    announced = b"POST /v1/leases HTTP/1.1\r\nHost: api\r\nContent-Length: 2097152\r\n\r\n" + b" " * 70_000
    assert (await api.raw(announced)).status == 413


async def test_a_body_of_exactly_the_limit_is_read(api: Api) -> None:
    body = b"{}" + b" " * (64 * 1024 - 2)
    assert (await api.raw(request(body))).status == 201
    assert (await api.raw(request(body + b" "))).status == 413


@pytest.mark.parametrize(
    "sent",
    [
        request(b"not gzip", b"Content-Encoding: gzip"),
        b"POST /v1/leases HTTP/1.1\r\nHost: api\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"POST /v1/leases HTTP/1.1\r\nHost: api\r\nContent-Length: -1\r\n\r\n",
        b"POST /v1/leases HTTP/1.1\r\nHost: api\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
        b"POST /v1/leases HTTP/1.1\r\nHost: api\r\nBad Header\r\n\r\n",
        b"GET /" + b"x" * 20_000 + b" HTTP/1.1\r\nHost: api\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n",
    ],
)
async def test_what_is_no_http_is_400_in_the_envelope(api: Api, sent: bytes) -> None:
    answer = await api.raw(sent)
    assert (answer.status, answer.code in ("bad_request", "invalid_body")) == (400, True)


async def test_unknown_paths_and_methods_get_the_envelope(api: Api) -> None:
    for method, path in [("GET", "/"), ("GET", "/v2/leases"), ("POST", "/v1/leases/x/renewed"), ("GET", "/v1/%ff")]:
        answer = await api.ask(method, path)
        assert (answer.status, answer.code) == (404, "not_found"), path
    for method, path in [
        ("PUT", "/v1/leases"),
        ("POST", "/v1/proxies"),
        ("PATCH", "/healthz"),
        ("TRACE", "/v1/leases"),
    ]:
        answer = await api.ask(method, path)
        assert (answer.status, answer.code) == (405, "method_not_allowed"), path
        assert answer.headers["Allow"]


async def test_an_unexpected_error_is_500_without_details(
    api: Api, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("planted-detail")

    monkeypatch.setattr("api.leases.lease_json", broken)
    answer = await api.ask("POST", "/v1/leases", json={})
    assert answer.status == 500
    assert answer.json == {"error": "internal", "message": "internal server error"}
    assert "planted-detail" not in answer.text
    assert "/v1/leases" in caplog.text


async def ask_with(api: Api, *headers: bytes, method: str = "GET", path: str = "/v1/proxies") -> Answer:
    return await api.raw(request(b"", *headers, method=method, path=path))


async def test_only_the_exact_token_opens(temporal_client: Client) -> None:
    async with broker_with(temporal_client, 1) as broker, serving(broker, token=TOKEN) as api:
        for headers in (
            (),
            (b"Authorization: Bearer caf\xe9",),
            (b"Authorization: Bearer ",),
            (b"Authorization: Bearer",),
            (b"Authorization: bearer " + TOKEN,),
            (b"Authorization: Bearer " + TOKEN + b" " + TOKEN,),
            (b"Authorization: Bearer  " + TOKEN,),
            (b"Authorization: Basic " + TOKEN,),
            (b"Authorization: Bearer " + TOKEN[:-1],),
            (b"Authorization: Bearer " + TOKEN, b"Authorization: Bearer " + TOKEN),
        ):
            answer = await ask_with(api, *headers)
            assert (answer.status, answer.code) == (401, "unauthorized"), headers
            assert answer.headers["WWW-Authenticate"] == "Bearer"
        assert (await ask_with(api, b"Authorization: Bearer " + TOKEN)).status == 200
        assert (await ask_with(api, path="/healthz")).status == 200


async def test_every_method_and_path_needs_the_token(temporal_client: Client) -> None:
    async with broker_with(temporal_client, 1) as broker, serving(broker, token=TOKEN) as api:
        for method in ("GET", "POST", "DELETE", "OPTIONS", "PUT"):
            for path in ("/v1/proxies", "/v1/leases", "/nowhere", "/healthz/x", "//healthz", "/v1/../healthz/"):
                assert (await ask_with(api, method=method, path=path)).status == 401, (method, path)


async def test_the_log_has_one_line_per_request_and_nothing_the_client_chose(
    temporal_client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with broker_with(temporal_client, 1) as broker, serving(broker, token=b"planted-token") as api:
        bearer = {"Authorization": "Bearer planted-token"}
        await api.ask("POST", "/v1/leases", json={"target": "planted-target"}, headers=bearer)
        await api.ask("GET", "/v1/proxies?attr.planted-key=planted-value", headers=bearer)
        await api.ask("DELETE", "/v1/leases/planted-lease", headers=bearer)
        await api.ask("GET", "/planted-path", headers={"Authorization": "Bearer planted-guess"})
        await api.raw(b"PROPFIND /v1/leases HTTP/1.1\r\nHost: a\r\nUser-Agent: planted-agent\r\n\r\n")
        await api.ask("GET", "/healthz")
    lines = [record for record in caplog.records if record.name == "api.access_log"]
    facts = [(record.__dict__["method"], record.__dict__["route"], record.__dict__["status"]) for record in lines]
    assert facts == [
        ("POST", "/v1/leases", 201),
        ("GET", "/v1/proxies", 200),
        ("DELETE", "/v1/leases/{id}", 204),
        ("GET", "unknown", 401),
        ("unknown", "unknown", 401),
    ]
    assert not any("planted" in str(record.__dict__).lower() for record in caplog.records)
