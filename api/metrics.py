"""Counters of the API."""

from prometheus_client import CollectorRegistry, Counter

GRANTED = "granted"
NO_MATCH = "no_match"
UNAVAILABLE = "unavailable"


class ApiMetrics:
    """What the API counts."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._lease_requests = Counter(
            "proxy_operator_lease_requests",
            "Lease acquisition requests by outcome.",
            ["outcome"],
            registry=registry,
        )
        for outcome in (GRANTED, NO_MATCH, UNAVAILABLE):
            self._lease_requests.labels(outcome)

    def lease_request(self, outcome: str) -> None:
        """Count one acquire."""
        self._lease_requests.labels(outcome).inc()
