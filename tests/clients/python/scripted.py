"""Carries out a procedure against answers that the test writes, on a clock that the test owns."""

import json
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from egress_proxies_client._core import NOTHING, Core, Pause, Procedure
from egress_proxies_client._held import Granted, HeldLease
from egress_proxies_client._settings import settings_from
from egress_proxies_client._wire import Call, Reply, lease_of

Value = TypeVar("Value")

PROXY = {
    "id": "default/px",
    "ip": "10.0.0.9",
    "port": 3128,
    "phase": "Ready",
    "healthy": True,
    "latencyMillis": 42,
    "activeLeases": 1,
    "maxLeases": 5,
}


def answer(status: int, body: Mapping[str, Any] | None = None, **headers: str) -> Reply:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Reply(status=status, headers=named, body=b"" if body is None else json.dumps(body).encode())


def granted(ttl: int = 300, lease_id: str = "L" * 26) -> Reply:
    body = {"leaseID": lease_id, "proxy": PROXY, "expiresAt": "2026-08-11T22:05:00.000Z", "ttlSeconds": ttl}
    return answer(201, body)


def refused(code: str, status: int = 409, **headers: str) -> Reply:
    return answer(status, {"error": code, "message": f"{code} it is"}, **headers)


class Script:
    """Answers one request after the other, and lets time pass."""

    def __init__(self, replies: Iterable[Reply], *, retry_for: float = 30.0, request_seconds: float = 0.0) -> None:
        self.now = 1000.0
        self.calls: list[Call] = []
        self.pauses: list[float] = []
        self._replies = iter(replies)
        self._request_seconds = request_seconds
        settings = settings_from("http://api.test", "", 10.0, retry_for)
        self.core = Core(settings, clock=lambda: self.now, jitter=lambda: 0.0)

    def run(self, procedure: Procedure[Value]) -> Value:
        try:
            step = next(procedure)
            while True:
                step = procedure.send(self._carry_out(step))
        except StopIteration as done:
            value: Value = done.value
            return value

    def hold(self, ttl: int = 300) -> HeldLease:
        """Return a lease that was granted just now."""
        return HeldLease(Granted(lease_of(granted(ttl)), self.now), lambda: self.now)

    def _carry_out(self, step: Call | Pause) -> Reply:
        if isinstance(step, Pause):
            self.pauses.append(step.seconds)
            self.now += step.seconds
            return NOTHING
        self.calls.append(step)
        self.now += self._request_seconds
        return next(self._replies)
