"""What makes an instance another one, and what does not."""

import dataclasses
import re

import pytest

from model.proxy import HealthCheck, Placement, ProxySpec, proxy_from_object
from model.spec_hash import is_comparable, spec_hash

SPEC = ProxySpec(mode="Managed", provider="box", placement=Placement(zone="z", region="r"))


def hash_of_object(spec: dict[str, object]) -> str:
    body = {"metadata": {"namespace": "ns", "name": "n", "uid": "u"}, "spec": {"mode": "Managed", **spec}}
    return spec_hash(proxy_from_object(body).spec, None)


def test_a_hash_carries_its_version() -> None:
    assert re.fullmatch(r"v1-[0-9a-f]{32}", spec_hash(SPEC, None))


def test_the_hash_stays_what_it_is_over_releases() -> None:
    # A change here rolls every fleet: it needs another version.
    assert spec_hash(ProxySpec(mode="Managed", provider="box"), None) == "v1-ea9944e9ff171de101c9d8606ec7b806"
    assert spec_hash(SPEC, "#cloud-config\n") == "v1-33993749fd1168c004b546fca766ae3a"


def test_neither_key_order_nor_spelled_out_defaults_matter() -> None:
    bare = hash_of_object({"provider": "box", "placement": {"zone": "z", "region": "r"}})
    assert bare == hash_of_object(
        {
            "placement": {"region": "r", "zone": "z", "image": "", "machineType": ""},
            "port": 3128,
            "provider": "box",
        }
    )
    assert hash_of_object({}) == hash_of_object({"placement": {}}) == hash_of_object({"placement": None})


def test_no_cloud_init_is_an_empty_one() -> None:
    assert spec_hash(SPEC, None) == spec_hash(SPEC, "")
    assert spec_hash(SPEC, None) != spec_hash(SPEC, " ")


@pytest.mark.parametrize("field", ["region", "zone", "machine_type", "image"])
def test_every_part_of_the_placement_counts_in_its_own_place(field: str) -> None:
    changed = dataclasses.replace(SPEC, placement=dataclasses.replace(SPEC.placement, **{field: "other"}))
    assert spec_hash(changed, None) != spec_hash(SPEC, None)
    swapped = dataclasses.replace(SPEC, placement=Placement(zone="r", region="z"))
    assert spec_hash(swapped, None) != spec_hash(SPEC, None)


def test_port_and_cloud_init_count() -> None:
    hashes = {spec_hash(SPEC, None), spec_hash(dataclasses.replace(SPEC, port=3129), None), spec_hash(SPEC, "x")}
    assert len(hashes) == 3


@pytest.mark.parametrize(
    "change",
    [
        {"max_leases": 9},
        {"attributes": {"a": "b"}},
        {"health_check": HealthCheck(interval_seconds=1)},
        {"provider": "other"},
        {"endpoint_host": "h", "endpoint_port": 1},
    ],
    ids=str,
)
def test_what_a_running_instance_does_not_depend_on_leaves_it_alone(change: dict[str, object]) -> None:
    assert spec_hash(dataclasses.replace(SPEC, **change), "x") == spec_hash(SPEC, "x")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("mark", "comparable"),
    [("v1-abc", True), ("v2-abc", False), ("v10-abc", False), ("abc", False), ("", False), ("v1", False)],
)
def test_only_a_mark_of_this_version_is_compared(mark: str, comparable: bool) -> None:
    assert is_comparable(mark) is comparable
