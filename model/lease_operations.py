"""What clients ask of the lease broker; ``model.lease_wire`` is how it travels.

Every operation may be sent again: it is idempotent by its lease id, or by the uid and order of a proxy's transition.

All times are milliseconds: ``*_millis`` are lengths, ``expires_millis`` is Unix time.
"""

from typing import Any, NamedTuple

Order = tuple[int, int]
"""Which of two messages about a proxy is newer: start of its workflow's chain in Unix milliseconds, then a counter."""

PRIMING_ORDER: Order = (0, 0)
"""The order of what priming says: anything a proxy's own workflow ever said is newer."""

BATCH_OPERATIONS_LIMIT = 1000
BATCH_BYTES_LIMIT = 256 * 1024
TEXT_LIMIT = 255
"""Longest target, selector key and selector value, in bytes of UTF-8."""
SELECTOR_PAIRS_LIMIT = 64
SESSION_LIMIT = 128
"""Longest name of a session, in bytes of UTF-8."""

RESULT_OK = "ok"
RESULT_TRANSPORT_ERROR = "transport_error"
RESTING_RESULTS = ("rate_limited", "banned", "geo_blocked", "captcha")
"""After these the proxy rests from the target."""
RESULTS = (RESULT_OK, *RESTING_RESULTS, RESULT_TRANSPORT_ERROR, "target_error")


class ProxyView(NamedTuple):
    """What the broker knows of a proxy.

    Attributes:
        phase: ``status.phase``; a ``Deleting`` proxy is neither listed nor considered.
        leasable: Whether it may be handed out, besides being healthy: it has an address, is not being replaced and does
            not drain.
        instance: Which instance or endpoint this is. When it changes, the leases on the former one are revoked.
        drain_ends_at: Unix milliseconds beyond which no lease on it is renewed; 0 while it does not drain.
    """

    ip: str
    port: int
    attributes: dict[str, str]
    phase: str
    healthy: bool
    latency_millis: int
    max_leases: int
    leasable: bool
    instance: str
    drain_ends_at: int = 0

    @property
    def told(self) -> tuple[Any, ...]:
        """The view as it travels to clients: they have no use for a drain, and older ones know no such field."""
        return self[:-1]


class Acquire(NamedTuple):
    """Grant a lease under an id the client chose; ``retain_millis`` past its end it can still be reported on.

    Attributes:
        body: With an idempotency key, the hash of what is asked for (``model.lease_keys``); otherwise "".
        session: Hash of the session's name, or "".
        strict: Whether nothing but the session's own proxy will do.
    """

    lease_id: str
    selector: dict[str, str]
    target: str
    ttl_millis: int
    retain_millis: int
    body: str = ""
    session: str = ""
    strict: bool = False


class Renew(NamedTuple):
    """Let a running lease end ``ttl_millis`` from now, or earlier where its proxy drains."""

    lease_id: str
    ttl_millis: int


class Look(NamedTuple):
    """Answer with a running lease, and change nothing."""

    lease_id: str


class Release(NamedTuple):
    """End a lease at its holder's wish."""

    lease_id: str


class GiveBack(NamedTuple):
    """End a lease that nobody holds because its grant never reached anyone, even one that is granted later."""

    lease_id: str


class Report(NamedTuple):
    """How the target treated the lease's proxy; "" as target means the lease's own."""

    lease_id: str
    result: str
    target: str
    cooldown_millis: int


class Transition(NamedTuple):
    """The proxy is like this now."""

    proxy_id: str
    uid: str
    order: Order
    view: ProxyView


class Gone(NamedTuple):
    """The Proxy with this uid is no more."""

    proxy_id: str
    uid: str
    order: Order


class Latency(NamedTuple):
    """A proxy's latest latency; ignored for another uid than the known one."""

    proxy_id: str
    uid: str
    latency_millis: int


class Latencies(NamedTuple):
    """Latencies of many proxies at once."""

    rows: list[Latency]


class Probe(NamedTuple):
    """What a probe found that began after somebody reported a transport error of the proxy.

    Attributes:
        hold_millis: 0: the proxy works. Otherwise it does not, and is not handed out for so long.
    """

    proxy_id: str
    uid: str
    hold_millis: int


class Probes(NamedTuple):
    """What probes found of proxies in doubt."""

    rows: list[Probe]


class Primed(NamedTuple):
    """Every Proxy there is has been told: leases may be granted."""


Operation = Acquire | Renew | Look | Release | GiveBack | Report | Transition | Gone | Latencies | Probes | Primed
