"""The conformance suite: every rule of ``providers.contract`` as a test that any provider plugs into.

In a test module of the provider::

    class TestAcmeConformance(ProviderConformance):
        fault_points = [FaultPoint(Operation.CREATE, "insert", FaultWay.ANSWER_LOST), ...]

        @pytest.fixture
        def harness(self, ...) -> Iterator[ProviderHarness]: ...

``ProviderHarness`` says what the provider brings along. ``fault_points`` names every step of every operation's
conversation with the backend, and the ways in which it can break. The suite needs pytest-asyncio in its mode ``auto``;
how each fault ended is shown at the end of the run, see ``providers.conformance_report``.
"""

from providers.conformance_extras import ExtraRules, SecretRules
from providers.conformance_faults import FaultRules
from providers.conformance_harness import (
    CLOUD_INIT_SENTINEL,
    OURS,
    THEIRS,
    Fault,
    FaultPoint,
    FaultWay,
    Operation,
    ProviderHarness,
    Stranger,
    perform,
)
from providers.conformance_life import LifeRules

__all__ = [
    "CLOUD_INIT_SENTINEL",
    "OURS",
    "THEIRS",
    "Fault",
    "FaultPoint",
    "FaultWay",
    "Operation",
    "ProviderConformance",
    "ProviderHarness",
    "Stranger",
    "perform",
]


class ProviderConformance(LifeRules, FaultRules, SecretRules, ExtraRules):
    """All rules; see the module."""
