"""What a Proxy's workflow carries from run to run."""

from dataclasses import dataclass, field

from model.failures import Failure
from model.health import HealthState
from model.messages import LeasingView, ProviderRoute
from model.proxy import ProxyStatus
from model.reasons import Cause
from model.status import Health


@dataclass(frozen=True, kw_only=True)
class InstanceRecord:
    """The instance on record.

    Attributes:
        ip: Empty unless it was running when last seen.
        created_at: By the backend's clock, in epoch seconds; 0 before the provider was asked.
        message: What the provider said of it last, for humans.
    """

    provider_id: str
    incarnation: str = ""
    spec_hash: str = ""
    ip: str = ""
    created_at: float = 0.0
    message: str = ""


@dataclass(frozen=True, kw_only=True)
class Replacement:
    """A replacement that has begun.

    Attributes:
        incarnation: The instance that has to go.
        cause: Why.
        drain_ends_at: Until when leases on it may run, in epoch seconds; 0 where nothing is waited for.
    """

    incarnation: str
    cause: Cause
    drain_ends_at: float = 0.0


@dataclass(kw_only=True)
class ProxyState:
    """Everything that must outlive a run of the workflow.

    Attributes:
        uid: The object the state is about; "" before the first reading.
        chain_start: When the workflow's chain of runs began, in epoch milliseconds.
        order: Counter of what was told to the broker.
        watches: Counter of started health watches.
        fingerprint: Of the object as last read.
        seen_generation: Of the object as last read; seen_deleting likewise.
        evaluated_generation: The one a step was decided for with the instance's state known.
        failed_action: The step that ``failure`` came from.
        create_sent: Whether a create may ever have reached the provider.
        create_may_land_until: Until when a create without an answer may still take effect, in epoch seconds.
        proven: Whether the instance has passed a probe.
        early_ends: How many instances in a row ended before they had.
        ended_incarnation: The last one that was counted.
        create_not_before: When the next one may be made, in epoch seconds.
        health_subject: What ``health`` is about; "" while there is no verdict.
        seen_rotate: The rotate annotation as last read; ``handled_rotate`` follows once a replacement begins for it.
        rotation_asked: Whether a rotation is asked for that no replacement has begun for.
        replacing: The replacement that has begun, or None.
        provider: Remembered, with its route, so that a config edit does not lose an instance to be deleted.
        entry_hash: The provider's config entry as its own queue read it last.
        told: The view the broker has, or None when it has to be told.
        not_taken_on: Why the broker did not take the view, or "".
        status: The object's status as last written or read.
    """

    namespace: str
    name: str
    uid: str = ""
    managed: bool = True
    chain_start: int = 0
    order: int = 0
    watches: int = 0
    fingerprint: str = ""
    provider: str = ""
    route: ProviderRoute | None = None
    entry_hash: str = ""
    instance: InstanceRecord | None = None
    create_sent: bool = False
    create_may_land_until: float = 0.0
    proven: bool = False
    early_ends: int = 0
    ended_incarnation: str = ""
    create_not_before: float = 0.0
    failure: Failure | None = None
    failed_action: str = ""
    failures_in_a_row: int = 0
    failed_cause: str = ""
    handled_retry: str = ""
    handled_rotate: str = ""
    seen_generation: int = 0
    seen_deleting: bool = False
    evaluated_generation: int = 0
    health_subject: str = ""
    health: Health = field(default_factory=Health)
    health_state: HealthState = field(default_factory=HealthState)
    seen_rotate: str = ""
    rotation_asked: bool = False
    replacing: Replacement | None = None
    told: LeasingView | None = None
    not_taken_on: str = ""
    status: ProxyStatus = field(default_factory=ProxyStatus)

    @property
    def is_replacing(self) -> bool:
        """Whether the instance on record is the one that has to go."""
        return (
            self.replacing is not None
            and self.instance is not None
            and self.replacing.incarnation == self.instance.incarnation
        )

    @property
    def runs(self) -> bool:
        """Whether there is something to probe and hand out: an External endpoint, or an instance with an address."""
        return not self.managed or (self.instance is not None and bool(self.instance.ip) and not self.is_replacing)
