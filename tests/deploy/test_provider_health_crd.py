"""The ProviderHealth kind on a real API server, through kubectl."""

import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.kubectl import API_VERSION, Kubectl

NOW = "2026-01-02T03:04:05Z"
TARGET = {
    "name": "host1",
    "address": "192.0.2.1:22",
    "ready": True,
    "reason": "Reachable",
    "message": "m" * 1024,
    "latencyMillis": 12,
    "details": {"version": "9.0"},
    "lastTransitionTime": NOW,
}
CONDITION = {"type": "Ready", "status": "False", "reason": "SomeDown", "message": "", "lastTransitionTime": NOW}
STATUS: dict[str, Any] = {
    "type": "kvm",
    "targetsReady": "1/2",
    "lastCheckTime": NOW,
    "targets": [TARGET, {"name": "host2", "ready": False, "lastTransitionTime": NOW}],
    "conditions": [CONDITION],
}


@pytest.fixture
def health(kubeconfig: Path) -> Iterator[tuple[Kubectl, str]]:
    """kubectl, and the name of a fresh object: the kind knows no namespaces."""
    kubectl, name = Kubectl(kubeconfig), f"test-{uuid.uuid4().hex[:12]}"
    applied = kubectl.apply({"apiVersion": API_VERSION, "kind": "ProviderHealth", "metadata": {"name": name}})
    assert applied.returncode == 0, applied.stderr
    yield kubectl, name
    kubectl("delete", "ph", name)


def patch_status(kubectl: Kubectl, name: str, status: dict[str, Any]) -> str:
    patch = json.dumps({"status": status})
    result = kubectl.run("patch", "ph", name, "--subresource=status", "--type=merge", f"--patch={patch}")
    return result.stderr if result.returncode else ""


def test_every_field_is_kept(health: tuple[Kubectl, str]) -> None:
    kubectl, name = health
    assert patch_status(kubectl, name, STATUS) == ""
    assert kubectl.get("ph", name)["status"] == STATUS


def test_columns(health: tuple[Kubectl, str]) -> None:
    kubectl, name = health
    patch_status(kubectl, name, STATUS)
    header, line = kubectl("get", "ph", name).splitlines()
    assert header.replace("LAST CHECK", "LAST-CHECK").split() == [
        *("NAME", "TYPE", "READY", "TARGETS", "LAST-CHECK", "AGE")
    ]
    assert line.split()[:4] == [name, "kvm", "False", "1/2"]


@pytest.mark.parametrize(
    ("status", "words"),
    [
        ({"targets": [{**TARGET, "message": "m" * 1025}]}, "status.targets[0].message: Too long"),
        ({"targets": [{**TARGET, "name": ""}]}, "status.targets[0].name"),
        ({"targets": [{"name": "host1"}]}, "status.targets[0].ready: Required value"),
        ({"targets": [{"name": "host1", "ready": True}]}, "status.targets[0].lastTransitionTime: Required value"),
        ({"targets": [TARGET, TARGET]}, "status.targets[1]: Duplicate value"),
        ({"conditions": [CONDITION, CONDITION]}, "status.conditions[1]: Duplicate value"),
        ({"conditions": [{**CONDITION, "status": "Maybe"}]}, "Unsupported value"),
        ({"lastCheckTime": "yesterday"}, "status.lastCheckTime"),
    ],
)
def test_a_malformed_status_is_refused(health: tuple[Kubectl, str], status: dict[str, Any], words: str) -> None:
    assert words in patch_status(*health, status)


@pytest.mark.parametrize("kind", ["ph", "providerhealth", "providerhealths", "providerhealths.crawl.example.com"])
def test_names_of_the_kind(health: tuple[Kubectl, str], kind: str) -> None:
    kubectl, name = health
    assert kubectl.get(kind, name)["metadata"]["name"] == name
