"""Requests and answers of the lease API, without any I/O."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Any, TypeVar
from urllib.parse import quote

from egress_proxies_client._refusals import error_of
from egress_proxies_client.errors import Unavailable, UnexpectedAnswer
from egress_proxies_client.records import LeaseInfo, LeaseRequest, Proxy, Result

Parsed = TypeVar("Parsed")


@dataclass(frozen=True, kw_only=True)
class Call:
    """One request.

    Attributes:
        path: Below the base URL, quoted.
        params: Query parameters.
        body: What is sent as JSON; None: no body.
        headers: Further headers.
    """

    method: str
    path: str
    params: Mapping[str, str] = field(default_factory=dict)
    body: Mapping[str, Any] | None = None
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def content(self) -> bytes | None:
        """The body as it is sent: plain ASCII, so that any text has a form and the API judges it."""
        return None if self.body is None else json.dumps(self.body).encode()


@dataclass(frozen=True, kw_only=True)
class Reply:
    """What came back.

    Attributes:
        headers: By lower-case name.
        failure: Why there was no answer; None when there was one.
    """

    status: int = 0
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    failure: Exception | None = None


def acquire_call(wish: LeaseRequest, idempotency_key: str) -> Call:
    """Return the request for a lease; what the wish leaves out is left to the API."""
    body: dict[str, Any] = {}
    if "selector" in wish:
        body["selector"] = dict(wish["selector"])
    if "target" in wish:
        body["target"] = wish["target"]
    if "ttl_seconds" in wish:
        body["ttlSeconds"] = wish["ttl_seconds"]
    if "session" in wish:
        body["session"] = wish["session"]
    if "session_mode" in wish:
        body["sessionMode"] = wish["session_mode"]
    return Call(method="POST", path="/v1/leases", body=body, headers={"Idempotency-Key": idempotency_key})


def renew_call(lease_id: str, ttl_seconds: int) -> Call:
    """Return the request to let a lease live longer."""
    return Call(method="POST", path=f"{_lease_path(lease_id)}/renew", body={"ttlSeconds": ttl_seconds})


def report_call(lease_id: str, result: Result, target: str) -> Call:
    """Return the report of how a site treated the proxy; target "" means the lease's own."""
    body = {"result": result, **({"target": target} if target else {})}
    return Call(method="POST", path=f"{_lease_path(lease_id)}/report", body=body)


def release_call(lease_id: str) -> Call:
    """Return the request to end a lease."""
    return Call(method="DELETE", path=_lease_path(lease_id))


def get_call(lease_id: str) -> Call:
    """Return the request for a lease's facts."""
    return Call(method="GET", path=_lease_path(lease_id))


def list_call(healthy: bool | None, attributes: Mapping[str, str], page: str) -> Call:
    """Return the request for a page of the list of proxies; "" is the first one."""
    params = {f"attr.{key}": value for key, value in attributes.items()}
    if healthy is not None:
        params["healthy"] = "true" if healthy else "false"
    if page:
        params["continue"] = page
    return Call(method="GET", path="/v1/proxies", params=params)


def _lease_path(lease_id: str) -> str:
    return f"/v1/leases/{quote(lease_id, safe='')}"


def check(reply: Reply) -> None:
    """Raise what the answer says went wrong.

    Raises:
        EgressProxiesError: The class of the answer's code.
    """
    if reply.failure is not None:
        reason = f"{type(reply.failure).__name__}: {reply.failure}"
        raise Unavailable(f"the lease API cannot be reached: {reason}") from reply.failure
    if not 200 <= reply.status < 300:
        raise error_of(reply.status, reply.headers, reply.body)


def lease_of(reply: Reply) -> LeaseInfo:
    """Return the lease in a successful answer.

    Raises:
        UnexpectedAnswer: There is none.
    """
    return _parse(reply, lambda body: _lease(body, reply.headers))


def proxies_of(reply: Reply) -> tuple[list[Proxy], str]:
    """Return the proxies in a successful answer, and the page after them; "" when there is none.

    Raises:
        UnexpectedAnswer: There is no such list.
    """
    return _parse(reply, lambda body: ([_proxy(entry) for entry in body["proxies"]], str(body.get("continue") or "")))


def _parse(reply: Reply, read: Callable[[Any], Parsed]) -> Parsed:
    try:
        return read(json.loads(reply.body))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        message = f"the answer is not what the lease API gives: {type(error).__name__}: {error}"
        raise UnexpectedAnswer(message, status=reply.status) from error


def _lease(body: Mapping[str, Any], headers: Mapping[str, str]) -> LeaseInfo:
    expires_at = datetime.fromisoformat(body["expiresAt"])
    ttl_seconds = int(body["ttlSeconds"])
    left = float(ttl_seconds)
    # Only differences between times of the API's own clock count: this machine's may be wrong.
    if "date" in headers:
        left = min(left, (expires_at - parsedate_to_datetime(headers["date"])).total_seconds())
    return LeaseInfo(
        id=str(body["leaseID"]),
        proxy=_proxy(body["proxy"]),
        expires_at=expires_at,
        ttl_seconds=ttl_seconds,
        seconds_left=left,
    )


def _proxy(body: Mapping[str, Any]) -> Proxy:
    return Proxy(
        id=str(body["id"]),
        host=str(body["ip"]),
        port=int(body["port"]),
        attributes=dict(body.get("attributes") or {}),
        phase=str(body["phase"]),
        healthy=bool(body["healthy"]),
        latency_millis=int(body["latencyMillis"]),
        active_leases=int(body["activeLeases"]),
        max_leases=int(body["maxLeases"]),
    )
