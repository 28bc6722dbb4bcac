"""What a Pod's object says of its instance."""

from typing import Any

import pytest

from model.instance import InstanceState
from providers.kubernetes.observation import instance_from_pod

IP = {"podIP": "10.244.0.7"}
READY = {"conditions": [{"type": "Ready", "status": "True"}]}
NOT_READY = {"conditions": [{"type": "Ready", "status": "False", "reason": "ContainersNotReady"}]}
OOM = {"terminated": {"reason": "OOMKilled", "exitCode": 137}}
BACK_OFF = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 20s restarting failed container"}}
CRASH_LOOPS = "the proxy ended and is started again: OOMKilled (exit code 137)"
PULL_FAILS = "ImagePullBackOff: image squid:nope cannot be pulled; check its name, its registry, imagePullSecrets"


def pod(status: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    whole = {"name": "p", "namespace": "ns", "uid": "u", "creationTimestamp": "2026-01-02T03:04:05Z", **metadata}
    return {"metadata": whole, "spec": {"nodeName": "node-3"}, "status": status}


def container(state: dict[str, Any], last: dict[str, Any] | None = None, ready: bool = False) -> dict[str, Any]:
    one = {"name": "squid", "image": "squid:nope", "state": state, "lastState": last or {}, "ready": ready}
    return {"containerStatuses": [one]}


@pytest.mark.parametrize(
    ("status", "state", "message"),
    [
        ({}, "Coming", ""),
        ({"phase": "Pending"}, "Coming", ""),
        ({"phase": "Pending", **container({"waiting": {"reason": "ContainerCreating"}})}, "Coming", ""),
        (
            {
                "phase": "Pending",
                "conditions": [
                    {
                        "type": "PodScheduled",
                        "status": "False",
                        "reason": "Unschedulable",
                        "message": "0/3 nodes are available: 3 Insufficient cpu.",
                    }
                ],
            },
            "Coming",
            "Unschedulable: 0/3 nodes are available: 3 Insufficient cpu.",
        ),
        ({"phase": "Pending", **container({"waiting": {"reason": "ErrImagePull"}})}, "Coming", PULL_FAILS),
        ({"phase": "Pending", **container({"waiting": {"reason": "ImagePullBackOff"}})}, "Coming", PULL_FAILS),
        (
            {"phase": "Pending", **container({"waiting": {"reason": "InvalidImageName", "message": "bad name"}})},
            "Coming",
            "InvalidImageName: bad name",
        ),
        (
            {
                "phase": "Pending",
                **container({"waiting": {"reason": "CreateContainerError", "message": f'reserved for "{"a1" * 32}"'}}),
            },
            "Coming",
            'CreateContainerError: reserved for "-"',
        ),
        ({"phase": "Running", **IP, **READY}, "Running", ""),
        ({"phase": "Running", **READY}, "Coming", ""),
        ({"phase": "Running", **IP, **NOT_READY}, "Coming", ""),
        ({"phase": "Running", **IP, **NOT_READY, **container(OOM)}, "Coming", CRASH_LOOPS),
        ({"phase": "Running", **IP, **NOT_READY, **container(BACK_OFF, OOM)}, "Coming", CRASH_LOOPS),
        ({"phase": "Running", **IP, **NOT_READY, **container({"running": {}}, OOM)}, "Coming", CRASH_LOOPS),
        ({"phase": "Running", **IP, **READY, **container({"running": {}}, OOM, ready=True)}, "Running", ""),
        (
            {"phase": "Running", **IP, "conditions": [{"type": "Ready", "status": "False", "reason": "NodeNotReady"}]},
            "Coming",
            "NodeNotReady",
        ),
        ({"phase": "Unknown", **IP}, "Coming", "the state of the Pod is unknown: no reason given"),
        (
            {"phase": "Failed", "reason": "Evicted", "message": "The node was low on resource: memory."},
            "Stopped",
            "Evicted: The node was low on resource: memory.",
        ),
        ({"phase": "Failed", "reason": "NodeLost"}, "Stopped", "NodeLost"),
        ({"phase": "Failed", **container(OOM)}, "Stopped", "OOMKilled (exit code 137)"),
        ({"phase": "Succeeded"}, "Stopped", "the Pod has ended as Succeeded"),
        ({"phase": "Dreaming"}, "Stopped", "the Pod is in the unknown phase 'Dreaming'"),
    ],
)
def test_the_state_and_its_message(status: dict[str, Any], state: str, message: str) -> None:
    instance = instance_from_pod(pod(status))
    assert (instance.state, instance.message) == (state, message)
    assert instance.ip == ("10.244.0.7" if state == InstanceState.RUNNING else "")


def test_a_pod_that_is_being_deleted_is_not_running() -> None:
    going = pod({"phase": "Running", **IP, **READY}, deletionTimestamp="2026-01-02T03:05:05Z")
    instance = instance_from_pod(going)
    assert (instance.state, instance.ip) == (InstanceState.STOPPED, "")
    assert instance.message == "the Pod is being deleted; its node node-3 has to confirm that it ended"


def test_a_pod_that_a_finalizer_holds_names_it() -> None:
    going = pod({}, deletionTimestamp="2026-01-02T03:05:05Z", finalizers=["example.com/hold"])
    assert "held by its finalizers: example.com/hold" in instance_from_pod(going).message
