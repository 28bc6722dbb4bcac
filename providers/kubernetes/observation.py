"""What a Pod's object says of the instance it is."""

import ipaddress
import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from model import names
from model.instance import Instance, InstanceState
from providers.kubernetes.api_errors import NoAnswerError
from providers.kubernetes.identifiers import provider_id

Pod = Mapping[str, Any]

_PULL_REASONS = ("ErrImagePull", "ImagePullBackOff")
_ON_ITS_WAY = ("ContainerCreating", "PodInitializing")
# Ids of containers and sandboxes differ on every try.
_LONG_ID = re.compile(r"\b[0-9a-f]{12,}\b")


def instance_from_pod(pod: Pod) -> Instance:
    """Return the instance.

    Raises:
        NoAnswerError: Something in the Pod has a type that no API server gives it.
    """
    try:
        return _read(pod)
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        metadata = pod["metadata"]
        where = f"Pod {metadata['namespace']}/{metadata['name']}"
        raise NoAnswerError(f"{where} cannot be read: {type(error).__name__}") from None


def _read(pod: Pod) -> Instance:
    metadata = pod["metadata"]
    labels = metadata.get("labels") or {}
    created_at = datetime.fromisoformat(metadata["creationTimestamp"])
    if created_at.tzinfo is None:
        raise ValueError("no time zone")
    state, message = _state(pod)
    return Instance(
        provider_id=provider_id(metadata["namespace"], metadata["name"]),
        incarnation=metadata["uid"],
        name=metadata["name"],
        state=state,
        ip=_address(pod["status"]["podIP"]) if state is InstanceState.RUNNING else "",
        uid=labels.get(names.MARK_UID, ""),
        installation=labels.get(names.MARK_INSTALLATION, ""),
        spec_hash=labels.get(names.MARK_SPEC_HASH, ""),
        created_at=created_at,
        message=message,
    )


def _address(value: Any) -> str:
    # A number is an address too to Python.
    return str(ipaddress.ip_address(_string(value)))


def _string(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{type(value).__name__} is no string")
    return value


def is_going(pod: Pod) -> bool:
    """Whether the Pod was told to go and is still there."""
    return bool(pod["metadata"].get("deletionTimestamp"))


def _state(pod: Pod) -> tuple[InstanceState, str]:
    status = pod.get("status") or {}
    phase = _string(status["phase"]) if status.get("phase") is not None else None
    if is_going(pod):
        return InstanceState.STOPPED, _going(pod)
    if phase in ("Failed", "Succeeded"):
        return InstanceState.STOPPED, _ended(status)
    if phase == "Running":
        is_ready = _condition(status, "Ready").get("status") == "True"
        if is_ready and status.get("podIP"):
            return InstanceState.RUNNING, ""
        return InstanceState.COMING, _waiting(status)
    if phase in ("Pending", None):
        return InstanceState.COMING, _unscheduled(status) or _waiting(status)
    if phase == "Unknown":
        # Its node does not answer. Either it does again, or Kubernetes evicts the Pod, which is then going.
        return InstanceState.COMING, f"the state of the Pod is unknown: {status.get('reason') or 'no reason given'}"
    return InstanceState.STOPPED, f"the Pod is in the unknown phase {str(phase)[:80]!r}"


def _going(pod: Pod) -> str:
    """Say what the Pod waits for.

    Only its node can tell that its processes have ended; an object removed by force proves nothing.
    """
    finalizers = pod["metadata"].get("finalizers") or []
    if finalizers:
        return f"the Pod is being deleted and held by its finalizers: {', '.join(finalizers)}"
    node = (pod.get("spec") or {}).get("nodeName")
    return f"the Pod is being deleted; its node {node} has to confirm that it ended" if node else ""


def _ended(status: Mapping[str, Any]) -> str:
    """Say why it stopped: the word of the kubelet (Evicted, NodeLost), else how its container ended."""
    if status.get("reason"):
        return _joined(status["reason"], status.get("message"))
    for container in _containers(status):
        ended = (container.get("state") or {}).get("terminated") or {}
        if ended:
            return _exit(ended)
    return str(status.get("message") or f"the Pod has ended as {status.get('phase')}")


def _unscheduled(status: Mapping[str, Any]) -> str:
    scheduled = _condition(status, "PodScheduled")
    if scheduled.get("status") != "False":
        return ""
    return _joined(scheduled.get("reason") or "Unschedulable", scheduled.get("message"))


def _waiting(status: Mapping[str, Any]) -> str:
    """Say why a Pod that is there does not serve, in words that stay the same from one try of the kubelet to the next.

    It alternates between a try and a pause: ErrImagePull and ImagePullBackOff, ended, CrashLoopBackOff and running.
    """
    for container in _containers(status):
        state = container.get("state") or {}
        waiting = state.get("waiting") or {}
        reason = waiting.get("reason")
        if reason in _PULL_REASONS:
            image = container.get("image")
            return f"ImagePullBackOff: image {image} cannot be pulled; check its name, its registry, imagePullSecrets"
        ended = state.get("terminated") or (container.get("lastState") or {}).get("terminated")
        if ended and not container.get("ready"):
            return f"the proxy ended and is started again: {_exit(ended)}"
        if reason and reason not in _ON_ITS_WAY:
            return _joined(reason, waiting.get("message"))
    ready = _condition(status, "Ready")
    return _joined(ready["reason"], ready.get("message")) if ready.get("reason") == "NodeNotReady" else ""


def _exit(ended: Mapping[str, Any]) -> str:
    return f"{ended.get('reason') or 'Error'} (exit code {ended.get('exitCode')})"


def _joined(reason: str, message: Any) -> str:
    return _LONG_ID.sub("-", f"{reason}: {message}") if message else str(reason)


def _condition(status: Mapping[str, Any], kind: str) -> Mapping[str, Any]:
    found: list[Mapping[str, Any]] = [one for one in status.get("conditions") or () if one.get("type") == kind]
    return found[0] if found else {}


def _containers(status: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return list(status.get("containerStatuses") or ())
