"""The pause while the broker's run continues as a new one, on a real Temporal server."""

from pathlib import Path

import pytest
from temporalio.client import Client

from bench.run_changes import gaps_over_changes, lease_worker


@pytest.mark.heavy
@pytest.mark.parametrize("leases", [1000, 25_000])
async def test_a_change_of_runs_with_a_full_table_stops_nobody_for_long(
    temporal_client: Client, tmp_path: Path, leases: int
) -> None:
    """The targets are 300 and 500 ms on a machine of one's own (``make bench``); others use this one too."""
    async with lease_worker(temporal_client, tmp_path):
        gaps, changes = await gaps_over_changes(temporal_client, leases, 6.0)
    assert changes
    assert max(gaps) < 8
