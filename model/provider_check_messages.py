"""What ProviderCheck, its activities and its schedule exchange."""

from dataclasses import dataclass, field

from model.provider_health import TargetHealth


@dataclass(frozen=True, kw_only=True)
class CheckSettings:
    """The argument of the schedule.

    Attributes:
        interval_seconds: Between checks.
        timeout_seconds: For the check of one provider.
    """

    interval_seconds: float = 60.0
    timeout_seconds: float = 15.0


@dataclass(frozen=True, kw_only=True)
class CheckProvider:
    """Check one provider."""

    provider: str
    timeout_seconds: float


@dataclass(frozen=True, kw_only=True)
class CheckAnswer:
    """What a check said.

    Attributes:
        implemented: Whether the provider can be checked at all.
        targets: The verdicts.
        left_out: Number of targets beyond those, where there were too many.
        left_out_ready: How many of these are ready.
    """

    implemented: bool
    targets: list[TargetHealth] = field(default_factory=list)
    left_out: int = 0
    left_out_ready: int = 0


@dataclass(frozen=True, kw_only=True)
class CheckOutcome:
    """What came of the check of one provider, to be published.

    Attributes:
        checked_at: Its end, Unix seconds.
        answer: None when there was none; then ``reason`` and ``message`` say why.
    """

    provider: str
    checked_at: float
    answer: CheckAnswer | None = None
    reason: str = ""
    message: str = ""


@dataclass(frozen=True, kw_only=True)
class Published:
    """What was written.

    Attributes:
        ready: Status of the condition Ready.
        targets_ready: As in ``2/3``.
        poked: Number of Proxies that waited for this provider to let us in again.
    """

    ready: str
    targets_ready: str
    poked: int = 0
