"""The Proxy kind on a real API server, through kubectl."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from model.proxy import HealthCheck, proxy_from_object, status_to_object
from tests.deploy.proxy_cases import CASES, EXTERNAL, MANAGED, Case, external, managed
from tests.support.kubectl import Kubectl, proxy
from tests.support.shared_servers import REPOSITORY
from tests.support.verdicts import dry_run

NOW = "2026-01-02T03:04:05Z"


@pytest.fixture(scope="module")
def creations(kubeconfig: Path) -> dict[str, str]:
    """What kubectl says to the creation of each case, by the case's name; nothing is kept."""
    assert len({case.name for case in CASES}) == len(CASES)
    return dry_run(Kubectl(kubeconfig), {case.name: proxy(case.name, case.spec) for case in CASES})


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_new_proxy_is_accepted_or_refused_in_the_stated_words(case: Case, creations: dict[str, str]) -> None:
    said = creations[case.name]
    if not case.refusal:
        assert said == ""
    for words in case.refusal:
        assert words in said


def test_defaults_are_filled_in(kubectl: Kubectl) -> None:
    kubectl.apply(proxy("managed", MANAGED), proxy("external", EXTERNAL))
    checks = {
        "probeURL": "https://www.gstatic.com/generate_204",
        "intervalSeconds": 10,
        "timeoutSeconds": 5,
        "failureThreshold": 3,
        "successThreshold": 1,
        "expectedStatusCodes": [200, 204],
    }
    assert kubectl.get("px", "managed")["spec"] == {
        **MANAGED,
        "port": 3128,
        "maxLeases": 5,
        "healthCheck": checks,
    }
    assert kubectl.get("px", "external")["spec"] == {
        "mode": "External",
        "endpoint": {"host": "203.0.113.7", "port": 3128},
        "port": 3128,
        "maxLeases": 5,
        "healthCheck": checks,
    }


def test_a_partial_health_check_gets_the_remaining_defaults(kubectl: Kubectl) -> None:
    kubectl.apply(
        proxy("partial", managed(healthCheck={"timeoutSeconds": 7})), proxy("none", managed(healthCheck=None))
    )
    assert proxy_from_object(kubectl.get("px", "partial")).spec.health_check == HealthCheck(timeout_seconds=7)
    assert proxy_from_object(kubectl.get("px", "none")).spec.health_check == HealthCheck()


def test_pausing_draining_and_age_read_as_they_are_written(kubectl: Kubectl) -> None:
    kubectl.apply(proxy("all", managed(paused=True, drainSeconds=90, maxAgeSeconds=3600)), proxy("none", MANAGED))
    spec = proxy_from_object(kubectl.get("px", "all")).spec
    assert (spec.paused, spec.drain_seconds, spec.max_age_seconds) == (True, 90, 3600)
    spec = proxy_from_object(kubectl.get("px", "none")).spec
    assert (spec.paused, spec.drain_seconds, spec.max_age_seconds) == (False, 0, None)


def test_the_defaults_of_the_model_are_those_of_the_kind(kubectl: Kubectl) -> None:
    kubectl.apply(proxy("bare", MANAGED))
    stored = kubectl.get("px", "bare")
    bare = {**stored, "spec": dict(MANAGED)}
    assert proxy_from_object(stored).spec == proxy_from_object(bare).spec


def test_a_refused_cloud_init_is_not_repeated_in_the_message(creations: dict[str, str]) -> None:
    refused = [text for name, text in creations.items() if name.startswith("inline-over")]
    assert len(refused) == 2
    assert all(len(text) < 500 for text in refused)


@pytest.mark.parametrize(
    "sample", sorted((REPOSITORY / "deploy" / "samples").glob("proxy_*.yaml")), ids=lambda p: p.stem
)
def test_samples_are_accepted(kubectl: Kubectl, sample: Path) -> None:
    kubectl("apply", "--dry-run=server", "-f", str(sample))


def test_unknown_fields_are_refused_by_name(kubectl: Kubectl) -> None:
    result = kubectl.apply(proxy("typo", managed(maxLease=5)))
    assert result.returncode != 0
    assert 'unknown field "spec.maxLease"' in result.stderr


UPDATES: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "mode-to-external": (dict(MANAGED), dict(EXTERNAL), "mode is immutable"),
    "mode-to-managed": (dict(EXTERNAL), dict(MANAGED), "mode is immutable"),
    "mode-removed": (dict(MANAGED), {"provider": "local"}, "spec.mode: Required value"),
    "provider-changed": (dict(MANAGED), managed(provider="other"), "provider is immutable"),
    "provider-removed": (dict(MANAGED), {"mode": "Managed"}, "provider is immutable"),
    "provider-added": (dict(EXTERNAL), {**EXTERNAL, "provider": "local"}, "provider is immutable"),
    "endpoint-removed": (dict(EXTERNAL), {"mode": "External"}, "endpoint is required when mode is External"),
    "endpoint-changed": (dict(EXTERNAL), external("proxy.example.com", port=8080), ""),
    "everything-else-changed": (
        managed(placement={"zone": "a"}, cloudInit={"inline": "a"}),
        managed(
            placement={"zone": "b"},
            cloudInit={"secretRef": {"name": "boot"}},
            port=8080,
            maxLeases=0,
            attributes={"geo": "eu"},
            healthCheck={"probeURL": "http://example.com/"},
        ),
        "",
    ),
    "nothing-changed": (dict(MANAGED), dict(MANAGED), ""),
}


def test_updates_are_accepted_or_refused_in_the_stated_words(kubectl: Kubectl) -> None:
    created = kubectl.apply(*(proxy(name, before) for name, (before, _, _) in UPDATES.items()))
    assert created.returncode == 0, created.stderr
    said = dry_run(kubectl, {name: proxy(name, after) for name, (_, after, _) in UPDATES.items()})
    for name, (_, _, words) in UPDATES.items():
        if words:
            assert words in said[name], name
        else:
            assert said[name] == "", name


def test_the_provider_cannot_be_removed_by_a_patch(kubectl: Kubectl) -> None:
    kubectl.apply(proxy("kept", MANAGED))
    patch = json.dumps([{"op": "remove", "path": "/spec/provider"}])
    result = kubectl.run("patch", "px", "kept", "--type=json", f"--patch={patch}")
    assert result.returncode != 0
    assert "provider is immutable" in result.stderr
    assert "provider is required when mode is Managed" in result.stderr


STATUS: dict[str, Any] = {
    "phase": "Ready",
    "ip": "127.0.1.5",
    "providerID": "local/box/proxy-abc",
    "incarnation": "17",
    "latencyMillis": 42,
    "lastHealthCheckTime": NOW,
    "exitIP": "203.0.113.9",
    "observedGeneration": 1,
    "failedCause": "abc",
    "handled": {"retry": "1", "rotate": "2"},
    "conditions": [
        {
            "type": type_,
            "status": "True",
            "reason": "Running",
            "message": "",
            "observedGeneration": 1,
            "lastTransitionTime": NOW,
        }
        for type_ in ("Provisioned", "Healthy", "Ready")
    ],
}


def patch_status(kubectl: Kubectl, kind: str, name: str, status: dict[str, Any]) -> str:
    """Patch a status and return what kubectl says against it."""
    patch = json.dumps({"status": status})
    result = kubectl.run("patch", kind, name, "--subresource=status", "--type=merge", f"--patch={patch}")
    return result.stderr if result.returncode else ""


def columns(kubectl: Kubectl, kind: str, *arguments: str) -> dict[str, str]:
    """Return the first line of ``kubectl get`` by column; the values here hold no blanks."""
    header, line = kubectl("get", kind, *arguments).splitlines()
    return dict(zip(header.replace("LAST CHECK", "LAST-CHECK").split(), line.split(), strict=True))


def test_every_field_of_the_models_status_is_kept(kubectl: Kubectl) -> None:
    kubectl.apply(proxy("full", MANAGED))
    assert patch_status(kubectl, "px", "full", STATUS) == ""
    stored = kubectl.get("px", "full")
    assert stored["status"] == STATUS
    status = proxy_from_object(stored).status
    assert status_to_object(status) == STATUS
    assert all(getattr(status, field.name) for field in dataclasses.fields(status))


def test_spec_and_status_are_written_separately(kubectl: Kubectl) -> None:
    kubectl.apply(proxy("split", MANAGED))
    patch_status(kubectl, "px", "split", {"phase": "Ready"})
    kubectl("patch", "px", "split", "--type=merge", '--patch={"status":{"phase":"Failed"},"spec":{"maxLeases":7}}')
    patch_status(kubectl, "px", "split", {"ip": "127.0.1.5"})
    stored = kubectl.get("px", "split")
    assert stored["status"] == {"phase": "Ready", "ip": "127.0.1.5"}
    assert stored["spec"]["maxLeases"] == 7
    assert stored["metadata"]["generation"] == 2


@pytest.mark.parametrize(
    ("status", "words"),
    [
        ({"phase": "Paused"}, 'status.phase: Unsupported value: "Paused"'),
        ({"conditions": [STATUS["conditions"][0], STATUS["conditions"][0]]}, "status.conditions[1]: Duplicate value"),
        ({"conditions": [{**STATUS["conditions"][0], "status": "Maybe"}]}, "Unsupported value"),
        ({"conditions": [{**STATUS["conditions"][0], "reason": "two words"}]}, "status.conditions[0].reason"),
        ({"conditions": [{"type": "Ready"}]}, "status.conditions[0].lastTransitionTime: Required value"),
        ({"lastHealthCheckTime": "yesterday"}, "status.lastHealthCheckTime"),
    ],
)
def test_a_malformed_status_is_refused(kubectl: Kubectl, status: dict[str, Any], words: str) -> None:
    kubectl.apply(proxy("refused", MANAGED))
    assert words in patch_status(kubectl, "px", "refused", status)


@pytest.mark.parametrize("phase", ["Pending", "Provisioning", "Ready", "Unhealthy", "Deleting", "Failed"])
def test_every_phase_is_accepted(kubectl: Kubectl, phase: str) -> None:
    kubectl.apply(proxy("phase", MANAGED))
    assert patch_status(kubectl, "px", "phase", {"phase": phase}) == ""


def test_columns(kubectl: Kubectl) -> None:
    kubectl.apply(proxy("shown", managed(port=8080)))
    patch_status(kubectl, "px", "shown", STATUS)
    narrow = {
        "NAME": "shown",
        "MODE": "Managed",
        "PROVIDER": "local",
        "PHASE": "Ready",
        "IP": "127.0.1.5",
        "HEALTHY": "True",
    }
    assert columns(kubectl, "px") == narrow
    wide = columns(kubectl, "px", "-o", "wide")
    assert list(wide) == [*narrow, "LATENCY", "PORT", "AGE"]
    assert wide["AGE"].endswith("s")
    assert wide == {**narrow, "LATENCY": "42", "PORT": "8080", "AGE": wide["AGE"]}


def test_wait_sees_the_ready_condition(kubectl: Kubectl) -> None:
    kubectl.apply(proxy("awaited", EXTERNAL))
    assert kubectl.run("wait", "px/awaited", "--for=condition=Ready", "--timeout=0s").returncode != 0
    patch_status(kubectl, "px", "awaited", STATUS)
    kubectl("wait", "px/awaited", "--for=condition=Ready", "--timeout=30s")


@pytest.mark.parametrize("name", ["px", "proxy", "proxies", "proxies.crawl.example.com"])
def test_names_of_the_kind(kubectl: Kubectl, name: str) -> None:
    assert kubectl.run("get", name).returncode == 0


def test_explain_describes_every_field(kubectl: Kubectl) -> None:
    assert "<no description>" not in kubectl("explain", "px.spec", "--recursive=false").split("FIELDS:")[1]
    assert "<no description>" not in kubectl("explain", "px.status").split("FIELDS:")[1]
