"""Which installation this is."""

import re
from typing import Any

import pytest

from cluster.connection import ClusterConnection
from cluster.installation import check_installation, cluster_installation
from model.errors import ConfigurationError
from tests.cluster.scripted_api import ScriptedApi, refusal


@pytest.mark.parametrize("name", ["a", "0", "crawl-eu-1", "a" * 63, "0b1c2d3e-0000-4000-8000-000000000000"])
def test_a_good_name_is_taken(name: str) -> None:
    assert check_installation(name) == name


@pytest.mark.parametrize("name", ["", "A", "a_b", "-a", "a-", "-", "a" * 64, "a.b", "é", "a\n", "a b"])
def test_a_bad_name_is_refused_with_the_rule(name: str) -> None:
    with pytest.raises(ConfigurationError, match=re.escape("--installation") + ".*1-63 of a-z") as refused:
        check_installation(name)
    assert "\n" not in str(refused.value)


async def test_a_cluster_is_known_by_its_kube_system(connection: ClusterConnection) -> None:
    installation = await cluster_installation(connection)
    assert re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", installation)
    assert installation == await cluster_installation(connection)


async def test_who_may_not_read_it_is_told_the_way_out(scripted: ScriptedApi, to_scripted: ClusterConnection) -> None:
    async def forbid(_request: Any) -> Any:
        return refusal(403, "namespaces is forbidden")

    scripted.on_list = forbid
    with pytest.raises(ConfigurationError, match=r"forbidden.*give --installation"):
        await cluster_installation(to_scripted)
