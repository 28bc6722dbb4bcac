"""What a client does, on a clock of the test's own."""

import httpx
import pytest

from egress_proxies_client import (
    LeaseExpired,
    LeaseRevoked,
    NoMatch,
    SessionUnavailable,
    Unauthorized,
    Unavailable,
    UnknownLease,
)
from egress_proxies_client._wire import Reply
from tests.clients.python.scripted import PROXY, Script, answer, granted, refused

BUSY = refused("unavailable", 503, retry_after="1")


def keys(script: Script) -> list[str]:
    return [call.headers["Idempotency-Key"] for call in script.calls]


def test_an_acquire_is_sent_again_under_the_same_key_while_the_api_is_unavailable() -> None:
    script = Script([BUSY, Reply(failure=httpx.ConnectError("refused")), granted()])

    lease = script.run(script.core.acquire({"target": "a.test"}))

    assert lease.info.proxy.id == "default/px"
    assert script.pauses == [1.0, 0.4]
    assert len(set(keys(script))) == 1
    assert len(keys(script)[0]) == 36


def test_two_acquires_have_two_keys() -> None:
    script = Script([granted(), granted()])
    script.run(script.core.acquire({}))
    script.run(script.core.acquire({}))
    assert len(set(keys(script))) == 2


def test_retrying_ends_at_its_deadline_with_the_last_error() -> None:
    script = Script([BUSY] * 100, retry_for=5.0)
    with pytest.raises(Unavailable) as caught:
        script.run(script.core.acquire({}))
    assert caught.value.retry_after == 1.0
    assert script.now == 1005.0
    assert len(script.calls) == 6


def test_a_connection_that_fails_ends_as_unavailable_with_its_cause() -> None:
    script = Script([Reply(failure=httpx.ConnectError("refused"))] * 100, retry_for=0.0)
    with pytest.raises(Unavailable, match="ConnectError: refused") as caught:
        script.run(script.core.proxies(None, {}))
    assert isinstance(caught.value.__cause__, httpx.ConnectError)


def test_a_list_is_read_to_its_last_page() -> None:
    pages = [answer(200, {"proxies": [PROXY], "count": 1, "continue": "b3"}), answer(200, {"proxies": [], "count": 0})]
    script = Script(pages)
    found = script.run(script.core.proxies(True, {"geo": "eu"}))
    assert [proxy.id for proxy in found] == ["default/px"]
    first = {"healthy": "true", "attr.geo": "eu"}
    assert [call.params for call in script.calls] == [first, {**first, "continue": "b3"}]


def test_an_error_that_stays_is_not_tried_again() -> None:
    script = Script([refused("unauthorized", 401)])
    with pytest.raises(Unauthorized):
        script.run(script.core.acquire({"wait": 60.0}))
    assert script.pauses == []


def test_a_refusal_is_raised_at_once_without_wait() -> None:
    script = Script([refused("no_match", retry_after="3")])
    with pytest.raises(NoMatch) as caught:
        script.run(script.core.acquire({}))
    assert caught.value.retry_after == 3.0
    assert script.pauses == []


@pytest.mark.parametrize("code", ["no_match", "session_unavailable"])
def test_wait_waits_as_long_as_the_api_says_each_time(code: str) -> None:
    script = Script([refused(code, retry_after="7"), refused(code, retry_after="2"), granted()])
    script.run(script.core.acquire({"wait": 10.0}))
    assert script.pauses == [7.0, 2.0]
    assert len(set(keys(script))) == 1


def test_a_wait_that_would_be_too_long_ends_with_a_last_try_at_its_deadline() -> None:
    script = Script([refused("no_match", retry_after="7"), refused("no_match", retry_after="240"), granted()])
    script.run(script.core.acquire({"wait": 10.0}))
    assert script.pauses == [7.0, 3.0]


def test_a_wait_ends_with_the_last_refusal() -> None:
    script = Script([refused("session_unavailable", retry_after="240")] * 2)
    with pytest.raises(SessionUnavailable):
        script.run(script.core.acquire({"wait": 10.0}))
    assert script.now == 1010.0


def test_wait_is_not_used_where_waiting_does_not_help() -> None:
    script = Script([refused("no_match")])
    with pytest.raises(NoMatch):
        script.run(script.core.acquire({"wait": 60.0}))
    assert script.pauses == []


def test_a_lease_that_ended_before_its_answer_came_is_leased_anew_under_another_key() -> None:
    script = Script([BUSY, refused("lease_expired"), granted()])
    script.run(script.core.acquire({}))
    first, second, third = keys(script)
    assert first == second != third


def test_a_key_of_the_callers_own_is_never_replaced() -> None:
    script = Script([refused("lease_expired")])
    with pytest.raises(LeaseExpired):
        script.run(script.core.acquire({"idempotency_key": "my-own-key"}))
    assert keys(script) == ["my-own-key"]


def test_a_lease_is_renewed_each_time_half_of_it_is_over_until_the_api_says_that_it_has_ended() -> None:
    script = Script([granted(), granted(), refused("lease_revoked")])
    lease = script.hold(300)

    script.run(script.core.keep_alive(lease))

    assert script.pauses == [150.0, 150.0, 150.0]
    assert [call.body for call in script.calls] == [{"ttlSeconds": 300}] * 3
    assert isinstance(lease.ended, LeaseRevoked)
    with pytest.raises(LeaseRevoked):
        _ = lease.proxy_url


def test_renewal_goes_on_while_the_api_is_unavailable_and_ends_with_the_lease() -> None:
    script = Script([BUSY] * 1000, retry_for=10.0)
    lease = script.hold(300)

    script.run(script.core.keep_alive(lease))

    assert 1299.0 < script.now <= 1300.5
    assert isinstance(lease.ended, LeaseExpired)


def test_renewal_that_is_late_saves_the_lease() -> None:
    script = Script([BUSY] * 20 + [granted(), refused("lease_expired")], retry_for=10.0)
    lease = script.hold(300)
    script.run(script.core.keep_alive(lease))
    assert script.now > 1300.0 + 10.0


def test_a_lease_counts_from_when_it_was_asked_for() -> None:
    script = Script([granted(300)], request_seconds=3.0)
    answered = script.run(script.core.acquire({}))
    assert answered.asked == 1000.0


def test_closing_reports_before_it_releases_and_forbids_further_use() -> None:
    script = Script([answer(204), answer(204)])
    lease = script.hold()

    script.run(script.core.closing(lease, "transport_error"))

    assert [(call.method, call.path.rpartition("/")[2]) for call in script.calls] == [
        ("POST", "report"),
        ("DELETE", lease.id),
    ]
    with pytest.raises(LeaseExpired, match="was released"):
        _ = lease.proxy_url


def test_closing_releases_although_the_report_fails_and_raises_nothing(caplog: pytest.LogCaptureFixture) -> None:
    script = Script([refused("unknown_lease", 404), BUSY], retry_for=0.0)
    script.run(script.core.closing(script.hold(), "banned"))
    assert [call.method for call in script.calls] == ["POST", "DELETE"]
    assert "could not be reported on" in caplog.text
    assert "could not be released" in caplog.text


def test_closing_does_not_release_twice() -> None:
    script = Script([answer(204)])
    lease = script.hold()
    script.run(script.core.let_go(lease))
    script.run(script.core.closing(lease, None))
    assert len(script.calls) == 1


def test_a_renewal_that_comes_too_late_for_a_release_does_not_change_why_the_lease_ended() -> None:
    script = Script([answer(204), refused("unknown_lease", 404)])
    lease = script.hold()
    script.run(script.core.let_go(lease))
    with pytest.raises(UnknownLease):
        script.run(script.core.renew(lease))
    assert "was released" in str(lease.ended)
