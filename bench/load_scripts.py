"""What a client of the load asks, request after request."""

import json
from typing import Protocol

LEASES, LIST, REFUSALS = "leases", "list", "refusals"
FLOOD = "flood"
"""The attribute of proxies that are there to be considered and refused."""

_JSON_REQUEST = b"POST %b HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b"
_RELEASE = b"DELETE /v1/leases/%b HTTP/1.1\r\nHost: bench\r\n\r\n"
_LIST = b"GET /v1/proxies HTTP/1.1\r\nHost: bench\r\n\r\n"


class LoadError(Exception):
    """A request was answered with something else than it should be."""


class Script(Protocol):
    """The requests of one client.

    Attributes:
        is_clean: Whether the client may stop here and leaves nothing behind.
    """

    is_clean: bool

    def request(self) -> bytes:
        """Return what is asked next."""

    def take(self, status: bytes, body: bytes) -> bool:
        """Take the answer; whether its time is measured.

        Raises:
            LoadError: It is not as it should be.
        """


class LeaseScript:
    """Acquires and releases in turn; acquires are measured."""

    def __init__(self) -> None:
        self.is_clean = True
        self._lease_id = ""
        self._acquire = post("/v1/leases", {"target": "shop.example.com", "ttlSeconds": 60})

    def request(self) -> bytes:
        return _RELEASE % self._lease_id.encode() if self._lease_id else self._acquire

    def take(self, status: bytes, body: bytes) -> bool:
        _expect(status, body, b"204" if self._lease_id else b"201")
        acquired = not self._lease_id
        self._lease_id = json.loads(body)["leaseID"] if acquired else ""
        self.is_clean = not acquired
        return acquired


class ListScript:
    """Lists all proxies over and over."""

    is_clean = True

    def request(self) -> bytes:
        return _LIST

    def take(self, status: bytes, body: bytes) -> bool:
        _expect(status, body, b"200")
        return True


class RefusalScript:
    """Asks for what is never free, for one site after another."""

    is_clean = True

    def __init__(self, number: int, targets: int) -> None:
        wish = {"selector": {FLOOD: "yes"}, "ttlSeconds": 60}
        self._requests = [post("/v1/leases", {**wish, "target": f"site-{place}"}) for place in range(targets)]
        self._next = number

    def request(self) -> bytes:
        self._next += 1
        return self._requests[self._next % len(self._requests)]

    def take(self, status: bytes, body: bytes) -> bool:
        _expect(status, body, b"409")
        return True


def script(name: str, number: int, targets: int) -> Script:
    """Return the script of one client.

    Args:
        name: ``LEASES``, ``LIST`` or ``REFUSALS``.
        number: Of the client, so that not all name the same site first.
        targets: How many sites refused requests name in turn.
    """
    if name == LEASES:
        return LeaseScript()
    return ListScript() if name == LIST else RefusalScript(number, targets)


def post(path: str, body: dict[str, object]) -> bytes:
    """Return a POST with a JSON body."""
    encoded = json.dumps(body, separators=(",", ":")).encode()
    return _JSON_REQUEST % (path.encode(), len(encoded), encoded)


def _expect(status: bytes, body: bytes, wanted: bytes) -> None:
    if status != wanted:
        raise LoadError(f"a request was answered with {status.decode()}: {body[:300]!r}")
