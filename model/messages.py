"""The messages that workflows, activities and the watcher exchange. None carries a secret; each stays below 10 KB."""

from dataclasses import dataclass, field

from model.health import HealthChange, HealthState
from model.instance import Instance
from model.proxy import HealthCheck, Proxy, ProxyStatus


@dataclass(frozen=True, kw_only=True)
class Poke:
    """A nudge to look at a Proxy: harmless when lost, doubled or late.

    Attributes:
        uid: Object the sender saw; "" when it saw none.
        fingerprint: What the sender saw of it (``model.fingerprint``), or "" when it saw nothing.
        look: Ask the provider too, even where the object is unchanged.
        entry_hash: The provider's config entry as its own queue reads it, or "".
    """

    namespace: str
    name: str
    uid: str = ""
    fingerprint: str = ""
    look: bool = False
    entry_hash: str = ""


@dataclass(frozen=True, kw_only=True)
class ProxyReference:
    """One Proxy object; with a uid, exactly that one."""

    namespace: str
    name: str
    uid: str = ""


@dataclass(frozen=True, kw_only=True)
class ProviderRoute:
    """Where a provider's work is done, and the hash of its config entry."""

    task_queue: str
    probe_task_queue: str
    entry_hash: str


@dataclass(frozen=True, kw_only=True)
class ProxyReading:
    """A Proxy as it is now, without cloud-init text and foreign annotations.

    Attributes:
        proxy: None when there is no such object.
        spec_hash: Hash of what the spec asks for; "" where cloud-init cannot be read.
        cloud_init_error: Why it cannot.
        route: None when the provider is not configured (or the Proxy is External).
        search_attributes: Whether Temporal knows the search attributes of Proxies, so that they may be set.
    """

    proxy: Proxy | None = None
    spec_hash: str = ""
    cloud_init_error: str = ""
    route: ProviderRoute | None = None
    fingerprint: str = ""
    search_attributes: bool = False


@dataclass(frozen=True, kw_only=True)
class ObjectEvent:
    """A Kubernetes Event about a Proxy.

    Attributes:
        warning: Whether a human should look.
        reason: CamelCase word.
        message: Cleaned when it is written.
    """

    warning: bool
    reason: str
    message: str


@dataclass(frozen=True, kw_only=True)
class StatusWrite:
    """Write this status to exactly this object.

    Attributes:
        events: What the change means to a human; written after the status, as far as the API server takes them.
    """

    reference: ProxyReference
    status: ProxyStatus
    events: list[ObjectEvent] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class SpecHashWrite:
    """Record the hash of what the instance was made from."""

    reference: ProxyReference
    spec_hash: str


@dataclass(frozen=True, kw_only=True)
class InstanceQuery:
    """Which instance is meant: by id, or by the name that belongs to the uid where no id is known.

    Attributes:
        known_message: What the provider said of it last; a wait for it ends with news of that too.
    """

    provider: str
    uid: str
    provider_id: str = ""
    known_message: str = ""


@dataclass(frozen=True, kw_only=True)
class InstanceAnswer:
    """What the provider knows of an instance; None when it is gone or never was."""

    instance: Instance | None = None
    entry_hash: str = ""


@dataclass(frozen=True, kw_only=True)
class CreateInstance:
    """Make the instance of this object from its present spec."""

    reference: ProxyReference
    provider: str


@dataclass(frozen=True, kw_only=True)
class RemoveInstance:
    """Delete one incarnation and prove it gone.

    Attributes:
        replacing: The object must still be alive; otherwise it must be deleting, gone or another one.
    """

    reference: ProxyReference
    provider: str
    provider_id: str
    incarnation: str
    replacing: bool


@dataclass(frozen=True, kw_only=True)
class UnmarkInstance:
    """Take our marks off one incarnation, which is abandoned."""

    reference: ProxyReference
    provider: str
    provider_id: str
    incarnation: str


@dataclass(frozen=True, kw_only=True)
class DrainProxy:
    """Wait until no lease runs on an instance that is not handed out any more.

    Attributes:
        instance: As in ``LeasingView``; leases on others do not count.
        ends_at: When waiting ends whatever still runs, in epoch milliseconds.
    """

    reference: ProxyReference
    instance: str
    ends_at: int


@dataclass(frozen=True, kw_only=True)
class WatchHealth:
    """Probe one proxy until something changes.

    Attributes:
        order: Start of the workflow's chain in epoch milliseconds, then a counter; in a worker a newer watch of a Proxy
            ends an older one.
    """

    reference: ProxyReference
    order: tuple[int, int]
    incarnation: str
    host: str
    port: int
    check: HealthCheck
    state: HealthState


@dataclass(frozen=True, kw_only=True)
class HealthReport:
    """Why a watch returned, and the counters to go on with."""

    state: HealthState
    change: HealthChange


@dataclass(frozen=True, kw_only=True)
class LeasingView:
    """What the lease broker has to know of a proxy.

    Attributes:
        instance: Changes whenever the thing behind the address is another one; leases on the former are revoked.
        leasable: Healthy, with an address, not paused, not deleting, not draining and not being replaced.
        drain_ends_at: Epoch milliseconds beyond which no lease of it is renewed; 0 while it does not drain.
    """

    ip: str
    port: int
    attributes: dict[str, str] = field(default_factory=dict)
    phase: str
    healthy: bool
    latency_millis: int
    max_leases: int
    instance: str
    leasable: bool
    deleting: bool = False
    drain_ends_at: int = 0


@dataclass(frozen=True, kw_only=True)
class BrokerTell:
    """One transition of a proxy for the broker; ``view`` is None when the proxy is gone.

    Attributes:
        order: Start of the workflow's chain in epoch milliseconds, then a counter.
    """

    reference: ProxyReference
    order: tuple[int, int]
    view: LeasingView | None = None


@dataclass(frozen=True, kw_only=True)
class BrokerAnswer:
    """The broker took the transition, or names the newer order that it has."""

    accepted: bool
    order: tuple[int, int] = (0, 0)
    refusal: str = ""


@dataclass(frozen=True, kw_only=True)
class DriftQuery:
    """Compare one provider's instances with what the Proxies say."""

    provider: str


@dataclass(frozen=True, kw_only=True)
class DriftReport:
    """Proxies to look at, at most 500 a run, and how many instances and Proxies were compared."""

    pokes: list[Poke] = field(default_factory=list)
    proxies: int = 0
    instances: int = 0


@dataclass(frozen=True, kw_only=True)
class ProviderQueue:
    """A configured provider and the queue that serves it."""

    name: str
    task_queue: str
