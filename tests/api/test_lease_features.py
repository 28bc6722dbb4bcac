"""Renewal, keys, sessions, results: what the API adds to the reference's, on a real broker."""

import asyncio
import time
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from typing import Any

import pytest
from temporalio.client import Client

from leasing.client import BrokerClient
from model.lease_operations import Gone, Probe
from tests.api.serving import Answer, Api, serving
from tests.leasing.brokers import INSTALLATION, broker_with, transition
from tests.leasing.polling import wait_until
from tests.workflows.lease_broker_worker import running_broker

UNKNOWN = ["never-existed", "A" * 26, "%ff", "%ed%a0%80", "x" * 3000]


@pytest.fixture
async def broker(temporal_client: Client) -> AsyncIterator[BrokerClient]:
    async with broker_with(temporal_client, 0) as broker:
        yield broker


@pytest.fixture
async def api(broker: BrokerClient) -> AsyncIterator[Api]:
    async with serving(broker, max_lease_ttl=timedelta(minutes=30)) as api:
        yield api


async def acquire(api: Api, key: str = "", **body: Any) -> Answer:
    return await api.ask("POST", "/v1/leases", json=body, headers={"Idempotency-Key": key} if key else {})


async def lease(api: Api, key: str = "", **body: Any) -> Any:
    answer = await acquire(api, key, **body)
    assert answer.status == 201, answer.text
    return answer.json


async def report(api: Api, lease_id: str, result: str, **body: Any) -> None:
    answer = await api.ask("POST", f"/v1/leases/{lease_id}/report", json={"result": result, **body})
    assert (answer.status, answer.text) == (204, "")


async def renew(api: Api, lease_id: str, **body: Any) -> Answer:
    return await api.ask("POST", f"/v1/leases/{lease_id}/renew", json=body)


def ends_in(answer: Any) -> float:
    return datetime.fromisoformat(answer["expiresAt"]).timestamp() - time.time()


async def active(api: Api) -> int:
    return sum(proxy["activeLeases"] for proxy in (await api.ask("GET", "/v1/proxies")).json["proxies"])


class TestReading:
    async def test_a_running_lease_is_shown_as_it_was_granted(self, api: Api, broker: BrokerClient) -> None:
        await broker.tell(transition("ns/a", attributes={"geo": "eu"}))
        granted = await lease(api, ttlSeconds=60)
        answer = await api.ask("GET", f"/v1/leases/{granted['leaseID']}")
        assert (answer.status, answer.json) == (200, granted)

    @pytest.mark.parametrize("lease_id", UNKNOWN)
    async def test_an_unknown_lease_is_404(self, api: Api, lease_id: str) -> None:
        answer = await api.ask("GET", f"/v1/leases/{lease_id}")
        assert (answer.status, answer.code) == (404, "unknown_lease")

    @pytest.mark.parametrize("end", ["released", "expired", "revoked"])
    async def test_a_lease_that_is_over_is_404(self, api: Api, broker: BrokerClient, end: str) -> None:
        await broker.tell(transition("ns/a"))
        path = f"/v1/leases/{(await lease(api, ttlSeconds=1))['leaseID']}"
        if end == "released":
            await api.ask("DELETE", path)
        elif end == "revoked":
            await broker.tell(transition("ns/a", counter=2, instance="two"))

        async def is_gone() -> bool:
            return (await api.ask("GET", path)).status == 404

        await wait_until(is_gone)


class TestRenewal:
    async def test_a_lease_ends_so_long_from_now(self, api: Api, broker: BrokerClient) -> None:
        await broker.tell(transition("ns/a", max_leases=1))
        granted = await lease(api, ttlSeconds=5)
        answer = await renew(api, granted["leaseID"], ttlSeconds=1200, unknown="ignored")
        assert answer.status == 200
        assert (answer.json["leaseID"], answer.json["ttlSeconds"]) == (granted["leaseID"], 1200)
        assert 1190 < ends_in(answer.json) < 1202
        assert (await api.ask("GET", f"/v1/leases/{granted['leaseID']}")).json == answer.json
        assert answer.json["proxy"]["activeLeases"] == 1
        assert (await renew(api, granted["leaseID"])).json["ttlSeconds"] == 300

    @pytest.mark.parametrize("lease_id", UNKNOWN)
    async def test_an_unknown_lease_is_404(self, api: Api, lease_id: str) -> None:
        answer = await renew(api, lease_id, ttlSeconds=60)
        assert (answer.status, answer.code) == (404, "unknown_lease")

    async def test_a_released_lease_is_404(self, api: Api, broker: BrokerClient) -> None:
        await broker.tell(transition("ns/a"))
        for key in ("", "key-12345"):
            granted = await lease(api, key)
            await api.ask("DELETE", f"/v1/leases/{granted['leaseID']}")
            assert (await renew(api, granted["leaseID"])).code == "unknown_lease"

    async def test_an_expired_lease_is_409_and_touches_no_other_s_slot(self, api: Api, broker: BrokerClient) -> None:
        await broker.tell(transition("ns/a", max_leases=1))
        former = await lease(api, ttlSeconds=1)

        async def freed() -> bool:
            return (await acquire(api, ttlSeconds=60)).status == 201

        await wait_until(freed)
        answer = await renew(api, former["leaseID"])
        assert (answer.status, answer.code) == (409, "lease_expired")
        await api.ask("DELETE", f"/v1/leases/{former['leaseID']}")
        assert await active(api) == 1

    async def test_while_a_proxy_drains_a_renewal_ends_with_the_drain(self, api: Api, broker: BrokerClient) -> None:
        await broker.tell(transition("ns/a", max_leases=9))
        granted, short = await lease(api, ttlSeconds=600), await lease(api, ttlSeconds=10)
        end = int(time.time() * 1000) + 100_500
        await broker.tell(transition("ns/a", counter=2, leasable=False, drain_ends_at=end))
        assert (await acquire(api)).code == "no_match"
        within = (await renew(api, short["leaseID"], ttlSeconds=20)).json
        assert 18 < ends_in(within) < 21
        capped = (await renew(api, short["leaseID"], ttlSeconds=600)).json
        assert datetime.fromisoformat(capped["expiresAt"]).timestamp() * 1000 == pytest.approx(end, abs=1)
        assert 98 <= capped["ttlSeconds"] <= 101
        kept = (await renew(api, granted["leaseID"], ttlSeconds=1200)).json
        assert kept["expiresAt"] == granted["expiresAt"]

    async def test_when_a_drain_is_over_a_renewal_is_refused(self, api: Api, broker: BrokerClient) -> None:
        await broker.tell(transition("ns/a"))
        granted = await lease(api)
        ends_at = int(time.time() * 1000) - 10
        await broker.tell(transition("ns/a", counter=2, leasable=False, drain_ends_at=ends_at))
        answer = await renew(api, granted["leaseID"])
        assert (answer.status, answer.code) == (409, "lease_revoked")
        assert (await api.ask("GET", f"/v1/leases/{granted['leaseID']}")).json["expiresAt"] == granted["expiresAt"]
        await broker.tell(transition("ns/a", counter=3))
        assert (await renew(api, granted["leaseID"])).status == 200

    @pytest.mark.parametrize("change", ["replaced", "edited", "deleting", "gone"])
    async def test_a_lease_on_an_instance_that_is_no_more_is_revoked(
        self, api: Api, broker: BrokerClient, change: str
    ) -> None:
        await broker.tell(transition("ns/a", max_leases=1))
        former = await lease(api)
        if change == "gone":
            await broker.tell(Gone("ns/a", "uid-ns/a", (1000, 2)))
        else:
            changes: dict[str, dict[str, Any]] = {
                "replaced": {"instance": "two"},
                "edited": {"instance": "10.0.0.9:3128", "ip": "10.0.0.9"},
                "deleting": {"phase": "Deleting", "leasable": False},
            }
            facts = changes[change]
            await broker.tell(transition("ns/a", counter=2, max_leases=1, **facts))
        answer = await renew(api, former["leaseID"])
        assert (answer.status, answer.code) == (409, "lease_revoked")
        if change in ("replaced", "edited"):
            await lease(api)
            assert await active(api) == 1

    async def test_a_proxy_that_is_sick_or_stops_being_handed_out_keeps_its_leases(
        self, api: Api, broker: BrokerClient
    ) -> None:
        await broker.tell(transition("ns/a"))
        granted = await lease(api)
        await broker.tell(transition("ns/a", counter=2, healthy=False, leasable=False, phase="Unhealthy"))
        assert (await renew(api, granted["leaseID"], ttlSeconds=60)).status == 200

    @pytest.mark.parametrize(
        ("body", "code"),
        [
            ({"ttlSeconds": 1801}, "invalid_ttl"),
            ({"ttlSeconds": -1}, "invalid_ttl"),
            ({"ttlSeconds": 1.5}, "invalid_body"),
            ({"ttlSeconds": "60"}, "invalid_body"),
        ],
    )
    async def test_a_bad_ttl_is_400_with_its_name(self, api: Api, body: dict[str, Any], code: str) -> None:
        answer = await renew(api, "A" * 26, **body)
        assert (answer.status, answer.code) == (400, code)
        assert "ttlSeconds" in answer.json["message"]


class TestIdempotencyKeys:
    async def test_the_same_request_gets_the_same_lease_and_one_slot(self, api: Api, broker: BrokerClient) -> None:
        await broker.tell(transition("ns/a", max_leases=1))
        body = {"selector": {"geo": ""}, "target": "site", "ttlSeconds": 60, "session": "s"}
        granted = await lease(api, "key-12345", **body)
        reordered = dict(reversed([*body.items(), ("unknown", "ignored")]))
        for _ in range(3):
            assert await lease(api, "key-12345", **reordered) == granted
        assert await active(api) == 1
        assert (await acquire(api, "key-other")).status == 409

    async def test_many_at_once_get_one_lease(self, api: Api, broker: BrokerClient) -> None:
        await broker.tell(transition("ns/a", max_leases=10))
        leases = await asyncio.gather(*(lease(api, "key-12345") for _ in range(20)))
        assert len({one["leaseID"] for one in leases}) == 1
        assert await active(api) == 1

    @pytest.mark.parametrize(
        "other",
        [
            {"target": "other"},
            {"ttlSeconds": 61},
            {"selector": {"geo": ""}},
            {"session": "s"},
            {"sessionMode": "strict"},
        ],
    )
    async def test_another_request_under_the_key_is_422(
        self, api: Api, broker: BrokerClient, other: dict[str, Any]
    ) -> None:
        await broker.tell(transition("ns/a"))
        await lease(api, "key-12345", target="site")
        answer = await acquire(api, "key-12345", **{"target": "site", **other})
        assert (answer.status, answer.code) == (422, "idempotency_key_reused")
        assert await active(api) == 1

    @pytest.mark.parametrize("end", ["released", "expired", "revoked"])
    async def test_a_lease_that_is_over_is_409_and_no_second_one(
        self, api: Api, broker: BrokerClient, end: str
    ) -> None:
        await broker.tell(transition("ns/a"))
        granted = await lease(api, "key-12345", ttlSeconds=1)
        if end == "released":
            await api.ask("DELETE", f"/v1/leases/{granted['leaseID']}")
        elif end == "revoked":
            await broker.tell(transition("ns/a", counter=2, instance="two"))

        async def is_over() -> bool:
            answer = await acquire(api, "key-12345", ttlSeconds=1)
            return (answer.status, answer.json.get("error")) == (409, "lease_expired")

        await wait_until(is_over)
        assert await active(api) == 0

    async def test_a_renewed_lease_is_answered_as_it_is_now(self, api: Api, broker: BrokerClient) -> None:
        await broker.tell(transition("ns/a"))
        granted = await lease(api, "key-12345", ttlSeconds=60)
        renewed = (await renew(api, granted["leaseID"], ttlSeconds=900)).json
        assert await lease(api, "key-12345", ttlSeconds=60) == renewed

    async def test_a_refusal_is_not_kept(self, api: Api, broker: BrokerClient) -> None:
        assert (await acquire(api, "key-12345")).status == 409
        await broker.tell(transition("ns/a"))
        assert (await acquire(api, "key-12345")).status == 201

    @pytest.mark.parametrize("key", ["", "short67", "x" * 129, "with space", "tab\tinside", "küü-12345", " "])
    async def test_a_bad_key_is_400_with_the_header_s_name(self, api: Api, key: str) -> None:
        head = f"POST /v1/leases HTTP/1.1\r\nHost: api\r\nIdempotency-Key: {key}\r\nContent-Length: 2\r\n\r\n{{}}"
        answer = await api.raw(head.encode())
        assert (answer.status, answer.code) == (400, "invalid_idempotency_key")
        assert "Idempotency-Key" in answer.json["message"]

    async def test_two_keys_are_400(self, api: Api) -> None:
        headers = [("Idempotency-Key", "key-12345"), ("Idempotency-Key", "key-12345")]
        answer = await api.ask("POST", "/v1/leases", json={}, headers=headers)
        assert (answer.status, answer.code) == (400, "invalid_idempotency_key")

    @pytest.mark.parametrize("key", ["!" * 8, "~" * 128])
    async def test_any_visible_ascii_will_do(self, api: Api, broker: BrokerClient, key: str) -> None:
        await broker.tell(transition("ns/a"))
        assert await lease(api, key) == await lease(api, key)

    async def test_a_retry_after_503_gets_the_lease_that_was_granted_meanwhile(self, temporal_client: Client) -> None:
        async with broker_with(temporal_client, 1, max_leases=1):
            pass
        broker = BrokerClient(temporal_client, INSTALLATION)
        async with serving(broker) as api:
            assert (await acquire(api, "key-12345", ttlSeconds=60)).code == "unavailable"
            async with running_broker(temporal_client):
                # The lost request's batch is still on its way, or this one asks anew: one lease either way.
                assert await lease(api, "key-12345", ttlSeconds=60) == await lease(api, "key-12345", ttlSeconds=60)
                await broker.close()
                assert (await broker.summary()).active_leases == 1


class TestSessions:
    async def test_a_session_keeps_its_proxy_whatever_the_load(self, api: Api, broker: BrokerClient) -> None:
        await broker.tell(transition("ns/a"))
        await broker.tell(transition("ns/b"))
        proxies = {(await lease(api, session="crawl-1"))["proxy"]["id"] for _ in range(4)}
        assert proxies == {"ns/a"}
        assert (await lease(api, session="crawl-2"))["proxy"]["id"] == "ns/b"

    async def test_a_session_outlives_its_leases(self, api: Api, broker: BrokerClient) -> None:
        await broker.tell(transition("ns/a"))
        granted = await lease(api, session="s")
        await api.ask("DELETE", f"/v1/leases/{granted['leaseID']}")
        await broker.tell(transition("ns/0", latency_millis=1))
        assert (await lease(api, session="s"))["proxy"]["id"] == "ns/a"
        assert (await lease(api))["proxy"]["id"] == "ns/0"

    async def test_relaxed_moves_to_another_proxy_and_stays_there(self, api: Api, broker: BrokerClient) -> None:
        await broker.tell(transition("ns/a", max_leases=1))
        await broker.tell(transition("ns/b"))
        first = await lease(api, session="s")
        assert first["proxy"]["id"] == "ns/a"
        assert (await lease(api, session="s", sessionMode="relaxed"))["proxy"]["id"] == "ns/b"
        await api.ask("DELETE", f"/v1/leases/{first['leaseID']}")
        assert (await lease(api, session="s"))["proxy"]["id"] == "ns/b"

    async def test_strict_takes_its_own_proxy_or_none_and_says_when(self, api: Api, broker: BrokerClient) -> None:
        await broker.tell(transition("ns/a", max_leases=1))
        await broker.tell(transition("ns/b"))
        await lease(api, session="s", sessionMode="strict", ttlSeconds=60)
        answer = await acquire(api, session="s", sessionMode="strict")
        assert (answer.status, answer.code) == (409, "session_unavailable")
        assert 50 < datetime.fromisoformat(answer.json["earliestAvailable"]).timestamp() - time.time() < 62
        assert 50 < int(answer.headers["Retry-After"]) <= 61
        await broker.tell(transition("ns/a", counter=2, max_leases=1, healthy=False))
        answer = await acquire(api, session="s", sessionMode="strict")
        assert answer.code == "session_unavailable"
        assert "earliestAvailable" not in answer.json
        assert "Retry-After" not in answer.headers

    async def test_cooldowns_and_selectors_hold_for_a_session_too(self, api: Api, broker: BrokerClient) -> None:
        await broker.tell(transition("ns/a", attributes={"geo": "eu"}))
        granted = await lease(api, session="s", target="site")
        await report(api, granted["leaseID"], "banned")
        assert (await acquire(api, session="s", target="site")).code == "no_match"
        assert (await acquire(api, session="s", sessionMode="strict", target="site")).code == "session_unavailable"
        assert (await acquire(api, session="s", sessionMode="strict", selector={"geo": "us"})).code == (
            "session_unavailable"
        )
        assert (await acquire(api, session="s", sessionMode="strict", target="other")).status == 201

    async def test_a_session_whose_proxy_is_gone_gets_a_live_one(self, api: Api, broker: BrokerClient) -> None:
        await broker.tell(transition("ns/a"))
        await lease(api, session="s")
        await broker.tell(Gone("ns/a", "uid-ns/a", (1000, 2)))
        await broker.tell(transition("ns/b"))
        assert (await acquire(api, session="s", sessionMode="strict")).code == "session_unavailable"
        granted = await lease(api, session="s")
        assert granted["proxy"]["id"] == "ns/b"
        assert ends_in(granted) > 0


class TestResults:
    @pytest.mark.parametrize("result", ["rate_limited", "banned", "geo_blocked", "captcha"])
    async def test_these_rest_the_proxy_from_the_target(self, api: Api, broker: BrokerClient, result: str) -> None:
        await broker.tell(transition("ns/a"))
        granted = await lease(api, target="site")
        await report(api, granted["leaseID"], result)
        refused = await acquire(api, target="site")
        assert (refused.status, refused.json["inCooldown"]) == (409, 1)
        assert 890 < int(refused.headers["Retry-After"]) <= 901
        assert (await acquire(api, target="other")).status == 201

    @pytest.mark.parametrize("result", ["ok", "target_error"])
    async def test_these_change_nothing(self, api: Api, broker: BrokerClient, result: str) -> None:
        await broker.tell(transition("ns/a"))
        granted = await lease(api, target="site")
        await report(api, granted["leaseID"], result)
        await lease(api, target="site")

    async def test_a_transport_error_suspends_the_proxy_until_a_probe_passes(
        self, api: Api, broker: BrokerClient
    ) -> None:
        await broker.tell(transition("ns/a"))
        granted = await lease(api, target="site")
        await report(api, granted["leaseID"], "transport_error")
        for body in ({"target": "site"}, {"target": "other"}, {}):
            refused = await acquire(api, **body)
            assert (refused.status, refused.json["unhealthy"], refused.json["inCooldown"]) == (409, 1, 0)
            assert "Retry-After" not in refused.headers
        assert await broker.doubted_proxies() == [("ns/a", "uid-ns/a")]
        assert (await renew(api, granted["leaseID"])).status == 200
        await broker.tell_probes([Probe("ns/a", "uid-ns/a", 60_000)])
        assert (await acquire(api)).status == 409
        await broker.tell_probes([Probe("ns/a", "uid-ns/a", 0)])
        assert await broker.doubted_proxies() == []
        await lease(api, target="site")


async def test_a_refusal_that_time_does_not_help_says_no_time(api: Api, broker: BrokerClient) -> None:
    await broker.tell(transition("ns/never", max_leases=0))
    await broker.tell(transition("ns/sick", healthy=False))
    refused = await acquire(api)
    assert (refused.status, refused.json["considered"]) == (409, 2)
    assert "earliestAvailable" not in refused.json
    assert "Retry-After" not in refused.headers
