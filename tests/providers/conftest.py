"""Makes the asserts of the conformance suite as telling as those of the tests."""

import pytest

pytest.register_assert_rewrite(
    "providers.conformance_extras",
    "providers.conformance_faults",
    "providers.conformance_harness",
    "providers.conformance_life",
    "providers.conformance_steps",
)
