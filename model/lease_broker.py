"""The lease broker's names and the settings its workflow runs under, shared by who runs and who starts it."""

from dataclasses import dataclass
from datetime import timedelta

WORKFLOW_TYPE = "LeaseBroker"
UPDATE_BATCH = "batch"
QUERY_LIST = "list_proxies"
QUERY_SUMMARY = "summary"
QUERY_DOUBTED = "doubted_proxies"
QUERY_LEASES_ON = "leases_on"
LEASES_NOT_KNOWN = -1
"""What ``drain_proxy`` returns in place of a number at a drain's end when the broker could not be asked."""

PRIME_ACTIVITY = "prime_broker"

MEMO_INSTALLATION = "installation"
"""Which installation the Temporal namespace belongs to."""

TASK_TIMEOUT = timedelta(seconds=2)
"""How long a killed worker may hold a workflow task, and with it every lease: the default is 10 s."""

MALFORMED_BATCH = "MalformedBatch"
"""Type of the error for a batch that cannot be read; sending it again does not help."""


@dataclass(frozen=True, kw_only=True)
class BrokerSettings:
    """What a run of the broker is started with, besides its snapshot.

    Attributes:
        continue_as_new_after: Batches until a run continues as a new one; None: when the server suggests it.
    """

    continue_as_new_after: int | None = None
