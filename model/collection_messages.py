"""What OrphanGC, its activities and its schedule exchange. Lists of instances and Proxies stay inside activities."""

from dataclasses import dataclass, field

MOST_CANDIDATES = 250
"""Orphans that one sweep remembers for the next, over all providers: about 8 KB."""
MOST_DELETES = 100
"""The largest ``--gc-max-deletes``."""
MOST_POKES = 500

DELETED = "deleted"
ALREADY_GONE = "already gone"
WOULD_DELETE = "would be deleted"
OWNED = "spared: its Proxy exists; the provider's worker asks another API server"
SPARED = "spared: "
"""Before the reason why an orphan was left alone after all."""
LIST_FAILED = "ListFailed"
"""Type of the failure of a sweep that could list nothing."""


@dataclass(frozen=True, kw_only=True)
class SweepSettings:
    """The argument of the schedule.

    Attributes:
        interval_seconds: Between sweeps.
        minimum_age_seconds: Younger instances are spared.
        max_deletes: Of one sweep, over all providers.
        dry_run: Only tell what would be deleted.
        collect_unmarked: Take instances without an installation mark for ours.
    """

    interval_seconds: float = 600.0
    minimum_age_seconds: float = 600.0
    max_deletes: int = 10
    dry_run: bool = False
    collect_unmarked: bool = False


@dataclass(frozen=True, kw_only=True)
class Orphan:
    """One incarnation that nobody owns.

    Attributes:
        uid: Its mark.
        is_second: Whether a Proxy of that uid exists, whose instance is another one.
    """

    provider_id: str
    incarnation: str
    uid: str
    is_second: bool = False


@dataclass(frozen=True, kw_only=True)
class OrphanQuery:
    """Find one provider's orphans.

    Attributes:
        at: Time of the sweep, Unix seconds.
        previous_at: Of the last complete sweep of this provider; 0 when there was none.
        seen_before: Its candidates: key, and when first seen as an orphan.
        most_candidates: At most so many are remembered for the next sweep.
    """

    provider: str
    settings: SweepSettings
    at: float
    previous_at: float = 0.0
    seen_before: dict[str, int] = field(default_factory=dict)
    most_candidates: int = MOST_CANDIDATES


@dataclass(frozen=True, kw_only=True)
class Findings:
    """What one provider has.

    Attributes:
        spared: Number of instances by why they are left alone (``model.collection.Spared``).
        candidates: The orphans to be known again by the next sweep: key, and when first seen as an orphan.
        doomed: Those that may be deleted now.
    """

    instances: int = 0
    spared: dict[str, int] = field(default_factory=dict)
    candidates: dict[str, int] = field(default_factory=dict)
    doomed: list[Orphan] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class CollectOrphan:
    """Delete one orphan, after another look."""

    provider: str
    orphan: Orphan
    settings: SweepSettings
    at: float


@dataclass(frozen=True, kw_only=True)
class ProviderSweep:
    """What a sweep found at one provider.

    Attributes:
        error: Why the provider was not swept; what it had is unknown then and nothing of it is confirmed.
        outcomes: Per orphan that was to be deleted, what became of it.
    """

    error: str = ""
    instances: int = 0
    spared: dict[str, int] = field(default_factory=dict)
    candidates: dict[str, int] = field(default_factory=dict)
    outcomes: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Reconciliation:
    """What was compared besides instances.

    Attributes:
        stale_broker_entries: Proxies the lease broker knows and that exist no more, or with another uid.
        stray_workflows: Running ProxyWorkflows whose Proxy is gone.
        unconfigured: Number of Proxies by provider, for providers that the config lacks: their instances are not seen.
        errors: What could not be compared, and why.
    """

    stale_broker_entries: int = 0
    stray_workflows: int = 0
    unconfigured: dict[str, int] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class SweepReport:
    """The result of a sweep, by which the next one confirms its candidates.

    Attributes:
        at: Time of the sweep, Unix seconds.
        deleted: Number of orphans that are proven gone.
    """

    at: float
    deleted: int = 0
    dry_run: bool = False
    providers: dict[str, ProviderSweep] = field(default_factory=dict)
    reconciliation: Reconciliation = field(default_factory=Reconciliation)
