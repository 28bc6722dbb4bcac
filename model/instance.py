"""What a provider knows of one instance."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class InstanceState(StrEnum):
    """State of an instance as the backend tells it."""

    COMING = "Coming"
    """Accepted, not yet running, or running without an address. It gets there by itself."""
    RUNNING = "Running"
    """Running and reachable at ``Instance.ip``."""
    STOPPED = "Stopped"
    """It will not come back by itself; also every state we do not know."""


@dataclass(frozen=True, kw_only=True)
class Instance:
    """One instance, read back from the backend.

    Attributes:
        provider_id: Self-contained id; ``get`` and ``delete`` need nothing else.
        incarnation: Which instance of that name this is; differs between an instance and its replacement.
        ip: Address that clients and probes connect to; empty unless running.
        uid: Mark: uid of the Proxy it was made for, or "".
        installation: Mark: installation that made it, or "" where the mark is missing.
        spec_hash: Mark: versioned hash of what it was made from, or "".
        created_at: By the backend's clock, with a time zone.
        message: Detail for humans, for instance why it stopped.
    """

    provider_id: str
    incarnation: str
    name: str
    state: InstanceState
    ip: str = ""
    uid: str = ""
    installation: str = ""
    spec_hash: str = ""
    created_at: datetime
    message: str = ""
