"""Pages, tags and compression of the list."""

import gzip
import json
from collections.abc import AsyncIterator

import pytest
from aiohttp import hdrs
from temporalio.client import Client

from api import list_query
from leasing.client import BrokerClient
from tests.api.serving import Api, serving
from tests.leasing.brokers import broker_with, transition

PROXIES = 12


@pytest.fixture
async def broker(temporal_client: Client) -> AsyncIterator[BrokerClient]:
    async with broker_with(temporal_client, PROXIES) as broker:
        yield broker


@pytest.fixture
async def api(broker: BrokerClient) -> AsyncIterator[Api]:
    async with serving(broker) as api:
        yield api


async def test_pages_follow_each_other_and_leave_nothing_out(api: Api, broker: BrokerClient) -> None:
    await broker.tell(transition("ns/0003", counter=2, healthy=False))
    seen: list[str] = []
    query = "?healthy=true&limit=4"
    while True:
        body = (await api.ask("GET", f"/v1/proxies{query}")).json
        assert body["count"] == len(body["proxies"]) <= 4
        seen += [proxy["id"] for proxy in body["proxies"]]
        if "continue" not in body:
            break
        query = f"?healthy=true&limit=4&continue={body['continue']}"
        # What comes and goes between two pages moves no other proxy.
        await broker.tell(transition("ns/0000", counter=3, phase="Deleting"))
    assert seen == [f"ns/{place:04}" for place in range(PROXIES) if place != 3]


async def test_the_last_page_and_a_whole_list_have_no_more(api: Api) -> None:
    for query in ("", "?limit=12", "?limit=2000"):
        assert "continue" not in (await api.ask("GET", f"/v1/proxies{query}")).json
    assert "continue" in (await api.ask("GET", "/v1/proxies?limit=11")).json


async def test_continue_goes_on_after_an_id_whether_it_is_there_or_not(api: Api) -> None:
    first = (await api.ask("GET", "/v1/proxies?limit=5")).json
    assert first["count"] == 5
    assert list_query.ListQuery().limit == list_query.PAGE_LIMIT == 2000
    after = list_query.continue_token("ns/0004")
    assert first["continue"] == after
    assert (await api.ask("GET", f"/v1/proxies?continue={after}")).json["count"] == PROXIES - 5
    assert (await api.ask("GET", f"/v1/proxies?continue={list_query.continue_token('zz')}")).json["count"] == 0


async def test_an_unchanged_list_is_304(api: Api) -> None:
    first = await api.ask("GET", "/v1/proxies?limit=1")
    tag = first.headers[hdrs.ETAG]
    assert tag.startswith('"')
    for known in (tag, f"W/{tag}", f'"other", {tag}', "*"):
        answer = await api.ask("GET", "/v1/proxies?limit=1", headers={"If-None-Match": known})
        assert (answer.status, answer.text, answer.headers[hdrs.ETAG]) == (304, "", tag)
    for known in ('"other"', "nonsense", "", tag.strip('"'), '"' * 500):
        assert (await api.ask("GET", "/v1/proxies?limit=1", headers={"If-None-Match": known})).status == 200
    await api.ask("POST", "/v1/leases", json={})
    answer = await api.ask("GET", "/v1/proxies?limit=1", headers={"If-None-Match": tag})
    assert (answer.status, answer.json["proxies"][0]["activeLeases"]) == (200, 1)
    assert answer.headers[hdrs.ETAG] != tag


async def test_a_large_list_is_compressed_for_who_asks(api: Api) -> None:
    plain = await api.ask("GET", "/v1/proxies", headers={"Accept-Encoding": "identity"})
    assert "Content-Encoding" not in plain.headers
    for asked in ("gzip", "br, GZIP;q=0.5", "*"):
        url = f"{api.url}/v1/proxies"
        async with api.session.get(url, headers={"Accept-Encoding": asked}) as response:
            assert response.headers["Content-Encoding"] == "gzip"
            assert response.headers["Vary"] == "Accept-Encoding"
            assert await response.json() == plain.json
            assert response.headers[hdrs.ETAG] != plain.headers[hdrs.ETAG]
    for refused in ("gzip;q=0", "gzip;q=0.000", "br", ""):
        answer = await api.ask("GET", "/v1/proxies", headers={"Accept-Encoding": refused})
        assert "Content-Encoding" not in answer.headers, refused


async def test_the_compressed_bytes_are_gzip(api: Api) -> None:
    head = b"GET /v1/proxies HTTP/1.1\r\nHost: api\r\nAccept-Encoding: gzip\r\n\r\n"
    raw = await api.raw_body(head)
    assert json.loads(gzip.decompress(raw))["count"] == PROXIES
