"""ProviderHealth objects on a real API server."""

import asyncio
import secrets

import pytest

from cluster.connection import ClusterConnection
from cluster.errors import ObjectConflictError
from cluster.provider_health import (
    COLLECTION_PATH,
    LABEL_INSTALLATION,
    LABEL_MANAGED_BY,
    MANAGED_BY,
    ProviderHealthStore,
)
from model.provider_check_messages import CheckAnswer, CheckOutcome
from model.provider_health import REACHABLE, UNREACHABLE, TargetHealth
from model.provider_health_status import status_of
from tests.support.kubectl import Kubectl

GOOD = TargetHealth(name="kvm1", address="h:22", ready=True, reason=REACHABLE, latency_millis=3, details={"a": "b"})
BAD = TargetHealth(name="kvm2", ready=False, reason=UNREACHABLE, message="refused")


def unique(name: str = "p") -> str:
    """A name of this test's own: the objects belong to no namespace."""
    return f"{name}-{secrets.token_hex(4)}"


def outcome(*targets: TargetHealth) -> CheckOutcome:
    answer = CheckAnswer(implemented=True, targets=list(targets))
    return CheckOutcome(provider="p", checked_at=1_780_000_000, answer=answer)


async def test_an_object_is_made_shown_and_kept_up_to_date(connection: ClusterConnection, kubectl: Kubectl) -> None:
    store, name = ProviderHealthStore(connection, unique("inst")), unique()
    assert await store.status(name) == {}
    await store.write(name, status_of("kvm", outcome(GOOD, BAD), {}))
    line = (await kubectl.acall("get", "ph", name, "--no-headers")).split()
    assert line[:4] == [name, "kvm", "False", "1/2"]
    before = await store.status(name)
    assert [target["reason"] for target in before["targets"]] == ["Reachable", "Unreachable"]
    await store.write(name, status_of("kvm", outcome(GOOD), before))
    line = (await kubectl.acall("get", "ph", name, "--no-headers")).split()
    assert line[:4] == [name, "kvm", "True", "1/1"]
    assert await store.remove_others(set()) == [name]


async def test_two_workers_may_make_it_at_once(connection: ClusterConnection) -> None:
    store, name = ProviderHealthStore(connection, unique("inst")), unique()
    await asyncio.gather(*(store.write(name, status_of("kvm", outcome(GOOD), {})) for _ in range(5)))
    assert (await store.status(name))["targetsReady"] == "1/1"
    await store.remove_others(set())


async def test_only_our_own_objects_of_unconfigured_providers_are_removed(
    connection: ClusterConnection, kubectl: Kubectl
) -> None:
    ours, theirs = (ProviderHealthStore(connection, unique("inst")) for _ in range(2))
    kept, removed, foreign, by_hand = (unique(word) for word in ("kept", "removed", "foreign", "by-hand"))
    for store, name in ((ours, kept), (ours, removed), (theirs, foreign)):
        await store.write(name, status_of("kvm", outcome(GOOD), {}))
    body = {"apiVersion": "crawl.example.com/v1alpha1", "kind": "ProviderHealth", "metadata": {"name": by_hand}}
    assert kubectl.apply(body).returncode == 0
    assert await ours.remove_others({kept}) == [removed]
    assert await ours.remove_others({kept}) == []
    left = (await kubectl.acall("get", "ph", "-o", "name")).replace("providerhealth.crawl.example.com/", "").split()
    assert {kept, foreign, by_hand} <= set(left)
    assert removed not in left
    for store in (ours, theirs):
        await store.remove_others(set())
    await kubectl.acall("delete", "ph", by_hand)


async def test_another_installations_object_is_left_alone(connection: ClusterConnection) -> None:
    mine, theirs = unique("inst"), unique("inst")
    name = unique()
    await ProviderHealthStore(connection, theirs).write(name, status_of("kvm", outcome(GOOD), {}))
    with pytest.raises(ObjectConflictError, match=f"{name} belongs to installation {theirs}; it is left alone"):
        await ProviderHealthStore(connection, mine).status(name)
    await ProviderHealthStore(connection, theirs).remove_others(set())


async def test_an_object_of_the_reference_operator_is_taken_over(connection: ClusterConnection) -> None:
    installation, name = unique("inst"), unique()
    store = ProviderHealthStore(connection, installation)
    body = {
        "apiVersion": "crawl.example.com/v1alpha1",
        "kind": "ProviderHealth",
        "metadata": {"name": name, "labels": {LABEL_MANAGED_BY: MANAGED_BY}},
    }
    await connection.request("POST", COLLECTION_PATH, body=body)
    assert await store.status(name) == {}
    await store.write(name, status_of("kvm", outcome(GOOD), {}))
    assert (await store.status(name))["targetsReady"] == "1/1"
    labels = (await connection.request("GET", f"{COLLECTION_PATH}/{name}"))["metadata"]["labels"]
    assert labels == {LABEL_MANAGED_BY: MANAGED_BY, LABEL_INSTALLATION: installation}
    await store.remove_others(set())
