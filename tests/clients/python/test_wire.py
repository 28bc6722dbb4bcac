"""Requests as they are sent, and answers as they are read."""

import json
import pickle
from datetime import UTC, datetime

import pytest

from api.openapi_errors import CODES
from egress_proxies_client import (
    EgressProxiesError,
    IdempotencyKeyReused,
    InvalidRequest,
    LeaseExpired,
    LeaseRevoked,
    NoMatch,
    Proxy,
    SessionUnavailable,
    Unauthorized,
    Unavailable,
    UnexpectedAnswer,
    UnknownLease,
)
from egress_proxies_client import _wire as wire
from egress_proxies_client._settings import settings_from
from egress_proxies_client._wire import Reply
from tests.clients.python.scripted import PROXY, answer, granted, refused


def error_in(reply: Reply) -> EgressProxiesError:
    with pytest.raises(EgressProxiesError) as caught:
        wire.check(reply)
    return caught.value


@pytest.mark.parametrize(
    ("status", "code", "error"),
    [
        (401, "unauthorized", Unauthorized),
        (404, "unknown_lease", UnknownLease),
        (409, "no_match", NoMatch),
        (409, "session_unavailable", SessionUnavailable),
        (409, "lease_expired", LeaseExpired),
        (409, "lease_revoked", LeaseRevoked),
        (422, "idempotency_key_reused", IdempotencyKeyReused),
        (503, "unavailable", Unavailable),
        (400, "invalid_ttl", InvalidRequest),
        (413, "body_too_large", InvalidRequest),
        (400, "a_code_of_tomorrow", InvalidRequest),
        (500, "internal", UnexpectedAnswer),
    ],
)
def test_a_code_has_its_error(status: int, code: str, error: type[EgressProxiesError]) -> None:
    found = error_in(refused(code, status))
    assert type(found) is error
    assert (found.status, found.code) == (status, code)
    assert f"{code} it is" in str(found)


def test_every_code_of_the_api_but_its_defects_is_an_error_to_act_on() -> None:
    unknown = [code for code, known in CODES.items() if type(error_in(refused(code, known.status))) is UnexpectedAnswer]
    assert unknown == ["internal"]


def test_a_refusal_carries_its_counts_and_when_to_come_back() -> None:
    body = {
        "error": "no_match",
        "message": "none",
        "considered": 6,
        "atCapacity": 1,
        "inCooldown": 2,
        "unhealthy": 3,
        "earliestAvailable": "2026-08-11T22:05:00.417Z",
    }
    found = error_in(answer(409, body, retry_after="12"))
    assert isinstance(found, NoMatch)
    assert (found.considered, found.at_capacity, found.in_cooldown, found.unhealthy) == (6, 1, 2, 3)
    assert found.earliest_available == datetime(2026, 8, 11, 22, 5, 0, 417000, tzinfo=UTC)
    assert found.retry_after == 12.0
    assert str(found) == "none (considered 6: 1 at capacity, 2 in cooldown, 3 unhealthy)"
    assert vars(pickle.loads(pickle.dumps(found))) == vars(found)


@pytest.mark.parametrize(
    ("message", "field"),
    [
        ("ttlSeconds must be between 1 and 3600", "ttlSeconds"),
        ("selector.geo must be a string", "selector.geo"),
        ("a key of selector must be at most 255 bytes", "selector"),
        ("session must be at most 128 bytes", "session"),
        ("sessionMode must be relaxed or strict", "sessionMode"),
        ("the body is not JSON", ""),
    ],
)
def test_an_invalid_request_names_the_field(message: str, field: str) -> None:
    found = error_in(answer(400, {"error": "invalid_body", "message": message}))
    assert isinstance(found, InvalidRequest)
    assert found.field == field


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        (Reply(status=502, body=b"<html>bad gateway</html>"), Unavailable),
        (Reply(status=404, body=b"<html>nothing here</html>"), UnexpectedAnswer),
        (Reply(status=302, body=b""), UnexpectedAnswer),
        (Reply(status=409, body=b'{"error":"no_match","considered":"many"}'), UnexpectedAnswer),
        (Reply(status=503, body=b"[]", headers={"retry-after": "Tue, 01 Dec 2026 14:00:00 GMT"}), Unavailable),
    ],
)
def test_an_answer_of_somebody_else_is_told_apart(reply: Reply, error: type[EgressProxiesError]) -> None:
    assert type(error_in(reply)) is error


def test_a_lease_lives_by_the_apis_clock_alone() -> None:
    body = json.loads(granted(300).body)
    late = answer(201, body, date="Tue, 11 Aug 2026 22:04:20 GMT")
    assert wire.lease_of(late).seconds_left == 40.0
    assert wire.lease_of(granted(300)).seconds_left == 300.0


@pytest.mark.parametrize("body", [b"", b"[]", b"null", b'{"leaseID": "x"}', b"<html>"])
def test_a_success_without_a_lease_is_an_unexpected_answer(body: bytes) -> None:
    with pytest.raises(UnexpectedAnswer):
        wire.lease_of(Reply(status=201, body=body))


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("10.0.0.9", "http://10.0.0.9:3128"),
        ("2001:db8::7", "http://[2001:db8::7]:3128"),
        ("egress.example.com", "http://egress.example.com:3128"),
    ],
)
def test_the_url_of_a_proxy(host: str, url: str) -> None:
    [found], page = wire.proxies_of(answer(200, {"proxies": [{**PROXY, "ip": host}], "count": 1}))
    assert page == ""
    assert isinstance(found, Proxy)
    assert found.url == url


def test_a_wish_is_sent_with_what_it_names_and_nothing_else() -> None:
    call = wire.acquire_call({"session": "s", "session_mode": "strict", "ttl_seconds": 60, "wait": 5.0}, "key-12345")
    assert json.loads(call.content or b"") == {"session": "s", "sessionMode": "strict", "ttlSeconds": 60}
    assert call.headers == {"Idempotency-Key": "key-12345"}
    assert wire.acquire_call({}, "key-12345").content == b"{}"


def test_an_id_cannot_leave_its_place_in_the_path() -> None:
    assert wire.release_call("../proxies?x").path == "/v1/leases/..%2Fproxies%3Fx"


def test_settings_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EGRESS_PROXIES_URL", "http://api.test:8090/")
    monkeypatch.setenv("EGRESS_PROXIES_TOKEN", "planted-token")
    settings = settings_from(None, None, 10.0, 30.0)
    assert settings.base_url == "http://api.test:8090"
    assert settings.headers == {"Authorization": "Bearer planted-token"}
    assert "planted-token" not in repr(settings)
    assert settings_from("https://other.test", "", 10.0, 30.0).headers == {}


@pytest.mark.parametrize(("url", "token"), [("", ""), ("api.test:8090", ""), ("http://api.test", "planted\ntoken")])
def test_settings_that_cannot_be_used_are_refused_without_showing_the_token(url: str, token: str) -> None:
    with pytest.raises(ValueError, match=r"base_url|token") as caught:
        settings_from(url, token, 10.0, 30.0)
    assert "planted" not in str(caught.value)
