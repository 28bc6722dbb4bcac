"""What a provider's check says of the things it depends on."""

from collections.abc import Mapping
from dataclasses import dataclass, field

REACHABLE = "Reachable"
TIMEOUT = "Timeout"
UNREACHABLE = "Unreachable"
UNAUTHORIZED = "Unauthorized"
FORBIDDEN = "Forbidden"
API_ERROR = "APIError"
NO_WORKER = "NoWorker"
"""Nobody could be asked to check."""


@dataclass(frozen=True, kw_only=True)
class TargetHealth:
    """The verdict about one target: a hypervisor, an API server, a cloud project.

    Attributes:
        name: Which target of its provider.
        address: What the check connected to, for humans.
        reason: ``REACHABLE`` when ready; else why not, one of the words above or one of the provider's own.
        message: Detail for humans, usually the error; cleaned when it is shown.
        latency_millis: How long the check took.
        details: Facts that the check gathered, such as a version.
    """

    name: str
    address: str = ""
    ready: bool
    reason: str
    message: str = ""
    latency_millis: int = 0
    details: Mapping[str, str] = field(default_factory=dict)
