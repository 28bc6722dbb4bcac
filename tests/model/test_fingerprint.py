"""What of an object makes its workflow look."""

import dataclasses
from typing import Any

import pytest

from model import names
from model.fingerprint import fingerprint
from model.proxy import Proxy, ProxySpec, ProxyStatus

PROXY = Proxy(
    namespace="ns",
    name="n",
    uid="u",
    generation=3,
    resource_version="100",
    annotations={names.ANNOTATION_RETRY: "1", "foreign": "x"},
    finalizers=("a", "b"),
    spec=ProxySpec(mode="Managed", provider="box"),
)


def changed(**changes: Any) -> Proxy:
    return dataclasses.replace(PROXY, **changes)


@pytest.mark.parametrize(
    "same",
    [
        changed(status=ProxyStatus(phase="Ready", ip="10.0.0.1")),
        changed(resource_version="101"),
        changed(annotations={**PROXY.annotations, names.ANNOTATION_SPEC_HASH: "v1-x"}),
        changed(annotations={**PROXY.annotations, "foreign": "y", "kubectl.kubernetes.io/last-applied": "z"}),
        changed(annotations=dict(reversed(list(PROXY.annotations.items())))),
        changed(finalizers=("b", "a")),
    ],
)
def test_what_no_step_depends_on_is_left_out(same: Proxy) -> None:
    assert fingerprint(same, "5") == fingerprint(PROXY, "5")


def test_everything_a_step_depends_on_is_in_it() -> None:
    annotations = PROXY.annotations
    different = [
        PROXY,
        changed(uid="u2"),
        changed(generation=4),
        changed(deleting=True),
        changed(annotations={**annotations, names.ANNOTATION_RETRY: "2"}),
        changed(annotations={**annotations, names.ANNOTATION_RETRY: ""}),
        changed(annotations={"foreign": "x"}),
        changed(annotations={**annotations, names.ANNOTATION_ROTATE: "1"}),
        changed(annotations={**annotations, names.ANNOTATION_SKIP_CLEANUP: "true"}),
        changed(finalizers=("a",)),
        changed(finalizers=("a", "b", names.FINALIZER)),
        changed(finalizers=()),
    ]
    prints = [fingerprint(proxy, version) for proxy in different for version in ("", "5", "6")]
    assert len(set(prints)) == len(prints)


def test_a_fingerprint_is_short() -> None:
    assert len(fingerprint(changed(annotations={names.ANNOTATION_RETRY: "x" * 100_000}), "5")) == 16
