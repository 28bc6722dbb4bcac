"""The lease API as a crawler uses it, on a real broker."""

import asyncio
import re
import time
from collections.abc import AsyncIterator
from datetime import datetime, timedelta

import pytest
from temporalio.client import Client

from leasing.client import BrokerClient
from tests.api.serving import Api, serving
from tests.leasing.brokers import INSTALLATION, broker_with, transition


@pytest.fixture
async def broker(temporal_client: Client) -> AsyncIterator[BrokerClient]:
    async with broker_with(temporal_client, 0) as broker:
        yield broker


@pytest.fixture
async def api(broker: BrokerClient) -> AsyncIterator[Api]:
    async with serving(broker, max_lease_ttl=timedelta(minutes=30)) as api:
        yield api


async def test_health_needs_no_broker(temporal_client: Client) -> None:
    async with serving(BrokerClient(temporal_client, INSTALLATION), token=b"t") as api:
        answer = await api.ask("GET", "/healthz")
    assert (answer.status, answer.text) == (200, "ok\n")


async def test_a_lease_has_the_reference_s_shape(api: Api, broker: BrokerClient) -> None:
    await broker.tell(transition("ns/eu1", attributes={"geo": "eu"}, latency_millis=30, ip="10.0.0.9", port=8080))
    await broker.tell(transition("ns/eu2", attributes={"geo": "eu"}, latency_millis=10))
    before = time.time()
    answer = await api.ask("POST", "/v1/leases", json={"selector": {"geo": "eu"}, "unknown": "ignored"})
    assert answer.status == 201
    assert answer.headers["Content-Type"].startswith("application/json")
    body = answer.json
    assert list(body) == ["leaseID", "proxy", "expiresAt", "ttlSeconds"]
    assert re.fullmatch(r"[A-Z2-7]{26}", body["leaseID"])
    assert body["proxy"] == {
        "id": "ns/eu2",
        "ip": "10.0.0.1",
        "port": 3128,
        "attributes": {"geo": "eu"},
        "phase": "Ready",
        "healthy": True,
        "latencyMillis": 10,
        "activeLeases": 1,
        "maxLeases": 5,
    }
    assert body["ttlSeconds"] == 300
    assert body["expiresAt"].endswith("Z")
    assert before + 298 < datetime.fromisoformat(body["expiresAt"]).timestamp() < time.time() + 302
    assert api.leases_counted("granted") == 1


async def test_a_refusal_says_why(api: Api, broker: BrokerClient) -> None:
    await broker.tell(transition("ns/tiny", attributes={"geo": "eu"}, max_leases=1))
    await broker.tell(transition("ns/sick", attributes={"geo": "eu"}, healthy=False))
    await broker.tell(transition("ns/us", attributes={"geo": "us"}))
    wanted = {"selector": {"geo": "eu"}}
    assert (await api.ask("POST", "/v1/leases", json=wanted)).status == 201
    answer = await api.ask("POST", "/v1/leases", json=wanted)
    assert answer.status == 409
    body = answer.json
    earliest = datetime.fromisoformat(body.pop("earliestAvailable")).timestamp()
    assert time.time() + 290 < earliest < time.time() + 302
    assert 290 < int(answer.headers["Retry-After"]) <= 301
    assert body == {
        "error": "no_match",
        "message": "no healthy proxy with free capacity matched the selector",
        "considered": 2,
        "atCapacity": 1,
        "inCooldown": 0,
        "unhealthy": 1,
    }
    assert api.leases_counted("no_match") == 1


async def test_a_bad_report_rests_the_proxy_from_its_target(api: Api, broker: BrokerClient) -> None:
    await broker.tell(transition("ns/a"))
    lease = (await api.ask("POST", "/v1/leases", json={"target": "example.com"})).json
    path = f"/v1/leases/{lease['leaseID']}/report"
    assert (await api.ask("POST", path, json={"result": "ok"})).status == 204
    answer = await api.ask("POST", path, json={"result": "rate_limited", "target": "example.com"})
    assert (answer.status, answer.text) == (204, "")
    refused = await api.ask("POST", "/v1/leases", json={"target": "example.com"})
    assert (refused.status, refused.json["inCooldown"]) == (409, 1)
    assert (await api.ask("POST", "/v1/leases", json={"target": "other.example"})).status == 201
    assert (await api.ask("POST", "/v1/leases", json={})).status == 201


async def test_a_release_is_always_204_and_frees_one_slot(api: Api, broker: BrokerClient) -> None:
    await broker.tell(transition("ns/a", max_leases=1))
    lease = (await api.ask("POST", "/v1/leases", json={})).json
    for lease_id in ("never-existed", "A" * 26, "a%2Fb", "%00", "%ed%a0%80", lease["leaseID"], lease["leaseID"]):
        answer = await api.ask("DELETE", f"/v1/leases/{lease_id}")
        assert (answer.status, answer.text) == (204, ""), lease_id
    assert (await api.ask("POST", "/v1/leases", json={})).status == 201
    assert (await api.ask("POST", "/v1/leases", json={})).status == 409


@pytest.mark.parametrize("lease_id", ["never-existed", "A" * 26, "%ff", "x" * 3000])
async def test_a_report_on_an_unknown_lease_is_404(api: Api, lease_id: str) -> None:
    answer = await api.ask("POST", f"/v1/leases/{lease_id}/report", json={"result": "ok"})
    assert (answer.status, answer.code) == (404, "unknown_lease")


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"ttlSeconds": 1801}, "invalid_ttl"),
        ({"ttlSeconds": -5}, "invalid_ttl"),
        ({"ttlSeconds": 10**400}, "invalid_ttl"),
        ({"ttlSeconds": 1.5}, "invalid_body"),
        ({"ttlSeconds": True}, "invalid_body"),
        ({"ttlSeconds": "60"}, "invalid_body"),
        ({"target": 5}, "invalid_body"),
        ({"target": "x" * 256}, "invalid_body"),
        ({"target": "\ud800"}, "invalid_body"),
        ({"selector": []}, "invalid_body"),
        ({"selector": {"geo": 1}}, "invalid_body"),
        ({"selector": {"geo": None}}, "invalid_body"),
        ({"selector": {"geo": "ü" * 128}}, "invalid_body"),
        ({"selector": {"\udfff": "x"}}, "invalid_body"),
        ({"selector": {str(place): "" for place in range(65)}}, "invalid_body"),
        ({"session": "x" * 129}, "invalid_body"),
        ({"session": ["x"]}, "invalid_body"),
        ({"session": "\ud800"}, "invalid_body"),
        ({"sessionMode": "loose"}, "invalid_body"),
        ({"sessionMode": 1}, "invalid_body"),
    ],
)
async def test_a_bad_field_is_400_with_its_name(api: Api, body: dict[str, object], code: str) -> None:
    answer = await api.ask("POST", "/v1/leases", json=body)
    assert (answer.status, answer.code) == (400, code)
    assert next(iter(body)) in answer.json["message"]


async def test_null_fields_and_limits_are_fine(api: Api, broker: BrokerClient) -> None:
    await broker.tell(transition("ns/a"))
    for body in (
        {"selector": None, "target": None, "ttlSeconds": None},
        {"target": "ü" * 127, "ttlSeconds": 1800},
        {"selector": {str(place): "" for place in range(64)}, "ttlSeconds": 0},
        {"session": "ü" * 64, "sessionMode": "strict"},
        {"session": None, "sessionMode": None},
    ):
        assert (await api.ask("POST", "/v1/leases", json=body)).status == 201


@pytest.mark.parametrize("result", ["", "OK", "throttled", "x" * 255])
async def test_an_invalid_result_is_refused(api: Api, result: str) -> None:
    answer = await api.ask("POST", f"/v1/leases/{'A' * 26}/report", json={"result": result})
    assert (answer.status, answer.code) == (400, "invalid_result")


async def test_a_list_is_filtered_and_in_order_of_id(api: Api, broker: BrokerClient) -> None:
    await broker.tell(transition("ns/us", attributes={"geo": "us"}))
    await broker.tell(transition("ns/eu-sick", attributes={"geo": "eu"}, healthy=False, phase="Unhealthy"))
    await broker.tell(transition("ns/eu", attributes={"geo": "eu", "purpose": "crawl"}, max_leases=1))
    await broker.tell(transition("ns/away", phase="Deleting"))
    await api.ask("POST", "/v1/leases", json={"selector": {"purpose": "crawl"}})

    async def ids(query: str) -> list[str]:
        answer = await api.ask("GET", f"/v1/proxies{query}")
        assert answer.status == 200
        assert answer.json["count"] == len(answer.json["proxies"])
        return [proxy["id"] for proxy in answer.json["proxies"]]

    assert await ids("") == ["ns/eu", "ns/eu-sick", "ns/us"]
    assert await ids("?healthy=true") == ["ns/eu", "ns/us"]
    assert await ids("?healthy=false") == ["ns/eu-sick"]
    assert await ids("?attr.geo=eu&healthy=true") == ["ns/eu"]
    assert await ids("?attr.geo=eu&attr.purpose=crawl") == ["ns/eu"]
    assert await ids("?attr.geo=mars") == []
    assert await ids("?attr.geo=eu&attr.geo=us&other=1") == ["ns/eu", "ns/eu-sick"]
    body = (await api.ask("GET", "/v1/proxies?attr.purpose=crawl")).json
    assert body["proxies"][0]["activeLeases"] == 1
    assert "attributes" in body["proxies"][0]


async def test_a_list_shows_a_lease_at_once(api: Api, broker: BrokerClient) -> None:
    await broker.tell(transition("ns/a", max_leases=100))
    for count in range(1, 6):
        await api.ask("POST", "/v1/leases", json={})
        answer = await api.ask("GET", "/v1/proxies")
        assert answer.json["proxies"][0]["activeLeases"] == count
        assert "attributes" not in answer.json["proxies"][0]
        assert "Age" not in answer.headers


@pytest.mark.parametrize(
    "query",
    [
        "limit=0",
        "limit=2001",
        "limit=-1",
        "limit=x",
        "limit=",
        "limit=%D9%A1",
        "continue=*",
        "continue=____",
        "continue=" + "A" * 2000,
        "healthy=maybe",
        "healthy=",
        "healthy=%ff",
        "attr.x=" + "y" * 256,
        "&".join(f"attr.{n}=" for n in range(65)),
    ],
)
async def test_an_invalid_query_is_refused(api: Api, query: str) -> None:
    answer = await api.ask("GET", f"/v1/proxies?{query}")
    assert (answer.status, answer.code) == (400, "invalid_query")


async def test_many_crawlers_never_exceed_the_capacity(api: Api, broker: BrokerClient) -> None:
    for place in range(4):
        await broker.tell(transition(f"ns/{place}", max_leases=5))
    answers = await asyncio.gather(*(api.ask("POST", "/v1/leases", json={}) for _ in range(50)))
    assert sorted(answer.status for answer in answers) == [201] * 20 + [409] * 30
    ids = [answer.json["leaseID"] for answer in answers if answer.status == 201]
    assert len(set(ids)) == 20
    assert {answer.json["atCapacity"] for answer in answers if answer.status == 409} == {4}


async def test_without_a_worker_everything_is_503_within_three_seconds(temporal_client: Client) -> None:
    async with serving(BrokerClient(temporal_client, INSTALLATION)) as api:
        start = time.monotonic()
        answers = await asyncio.gather(
            api.ask("POST", "/v1/leases", json={}),
            api.ask("GET", "/v1/proxies"),
            api.ask("DELETE", f"/v1/leases/{'A' * 26}"),
            api.ask("POST", f"/v1/leases/{'A' * 26}/report", json={"result": "ok"}),
            api.ask("GET", f"/v1/leases/{'A' * 26}"),
            api.ask("POST", f"/v1/leases/{'A' * 26}/renew", json={}),
        )
        assert time.monotonic() - start < 3.6
        for answer in answers:
            assert (answer.status, answer.code) == (503, "unavailable")
            assert int(answer.headers["Retry-After"]) >= 1
        assert api.leases_counted("unavailable") == 1
        assert (await api.ask("GET", "/healthz")).status == 200


async def test_while_the_broker_is_away_the_last_list_says_its_age(temporal_client: Client) -> None:
    async with broker_with(temporal_client, 2) as broker, serving(broker) as api:
        assert (await api.ask("GET", "/v1/proxies")).json["count"] == 2
    async with serving(broker) as api:
        answer = await api.ask("GET", "/v1/proxies")
    assert answer.json["count"] == 2
    assert 1 <= int(answer.headers["Age"]) <= 30
