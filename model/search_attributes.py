"""What Temporal's list of workflows can be searched by: ``EgressProxyPhase = 'Failed'`` answers which are stuck."""

from model import status as wording
from model.proxy import ProxyStatus

PHASE = "EgressProxyPhase"
PROVIDER = "EgressProxyProvider"
HEALTHY = "EgressProxyHealthy"
REASON = "EgressProxyReason"

NAMES = (PHASE, PROVIDER, HEALTHY, REASON)
"""Each of the type Keyword."""


def values_of(provider: str, status: ProxyStatus) -> dict[str, str]:
    """Return the value of each name; "" means none.

    The reason is the one of the condition Ready: why the Proxy is not ready, or that it is.
    """
    healthy = status.condition(wording.CONDITION_HEALTHY)
    ready = status.condition(wording.CONDITION_READY)
    return {
        PHASE: status.phase,
        PROVIDER: provider,
        HEALTHY: healthy.status if healthy is not None else "",
        REASON: ready.reason if ready is not None else "",
    }
