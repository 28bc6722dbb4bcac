"""The Pod of one instance, fit for a namespace that enforces the Pod Security level ``restricted``."""

from typing import Any

from model import names
from model.errors import PermanentError
from providers.contract import CreateRequest
from providers.fields import DNS_LABEL
from providers.kubernetes import squid
from providers.kubernetes.settings import KubernetesSettings

CONTAINER = "squid"
ANNOTATION_PROXY = f"{names.GROUP}/proxy"
GRACE_SECONDS = 5
"""squid takes 3 s to leave with ``shutdown_lifetime 1 seconds``."""
_FIRST_UNPRIVILEGED_PORT = 1024


def check_request(request: CreateRequest) -> None:
    """Check what no Pod can be made from. Placement and cloud-init do not apply and are ignored, as by the reference.

    Raises:
        PermanentError: Names the field and its value.
    """
    if not DNS_LABEL.fullmatch(request.name):
        raise PermanentError(f"instance name: must be a DNS label, not {request.name[:80]!r}")
    if not DNS_LABEL.fullmatch(request.namespace):
        raise PermanentError(f"namespace: must be a DNS label, not {request.namespace[:80]!r}")
    if not 1 <= request.port <= 65535:
        raise PermanentError(f"spec.port: must be 1 to 65535, not {request.port}")


def marks(request: CreateRequest) -> dict[str, str]:
    """Return the marks as labels."""
    return {
        names.MARK_MANAGED: names.MARK_MANAGED_VALUE,
        names.MARK_UID: request.uid,
        names.MARK_INSTALLATION: request.installation,
        names.MARK_SPEC_HASH: request.spec_hash,
    }


def build_pod(request: CreateRequest, settings: KubernetesSettings, *, owned: bool) -> dict[str, Any]:
    """Return the Pod to create.

    Args:
        request: What is wanted.
        settings: What Pods of this provider are made of.
        owned: Whether the Proxy lives beside the Pod, so that Kubernetes collects the Pod with it.
    """
    metadata: dict[str, Any] = {
        "name": request.name,
        "labels": {
            "app.kubernetes.io/name": "egress-proxy",
            "app.kubernetes.io/managed-by": "egress-proxies",
            **marks(request),
        },
        "annotations": {ANNOTATION_PROXY: f"{request.namespace}/{request.proxy_name}"},
    }
    if owned:
        metadata["ownerReferences"] = [owner_reference(request)]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": _spec(request, settings)}


def owner_reference(request: CreateRequest) -> dict[str, Any]:
    """Return the reference to the Proxy; it holds back no deletion of the Proxy, its finalizer does that."""
    return {
        "apiVersion": f"{names.GROUP}/{names.VERSION}",
        "kind": "Proxy",
        "name": request.proxy_name,
        "uid": request.uid,
        "blockOwnerDeletion": False,
    }


def _spec(request: CreateRequest, settings: KubernetesSettings) -> dict[str, Any]:
    spec: dict[str, Any] = {
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": GRACE_SECONDS,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": _pod_security(request.port),
        "containers": [_container(request, settings)],
        "volumes": [{"name": "files", "emptyDir": {"sizeLimit": "16Mi"}}],
    }
    if settings.node_selector:
        spec["nodeSelector"] = dict(settings.node_selector)
    if settings.tolerations:
        spec["tolerations"] = [dict(toleration) for toleration in settings.tolerations]
    if settings.image_pull_secrets:
        spec["imagePullSecrets"] = [{"name": name} for name in settings.image_pull_secrets]
    return spec


def _pod_security(port: int) -> dict[str, Any]:
    context: dict[str, Any] = {
        "runAsNonRoot": True,
        "runAsUser": squid.USER_ID,
        "runAsGroup": squid.USER_ID,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    if port < _FIRST_UNPRIVILEGED_PORT:
        # Allowed by `restricted`, and what lets a process without capabilities listen there.
        context["sysctls"] = [{"name": "net.ipv4.ip_unprivileged_port_start", "value": "0"}]
    return context


def _container(request: CreateRequest, settings: KubernetesSettings) -> dict[str, Any]:
    return {
        "name": CONTAINER,
        "image": settings.image,
        "command": ["/bin/sh", "-c", squid.START_SCRIPT],
        "env": [
            {"name": "PROXY_PORT", "value": str(request.port)},
            {"name": "MAX_FILEDESCRIPTORS", "value": str(squid.MAX_FILE_DESCRIPTORS)},
            {"name": "SQUID_CONFIG", "value": squid.squid_config(request.name, request.port)},
        ],
        "ports": [{"name": "proxy", "containerPort": request.port}],
        "readinessProbe": {"tcpSocket": {"port": request.port}, "periodSeconds": 2, "timeoutSeconds": 2},
        "resources": {kind: dict(amounts) for kind, amounts in settings.resources.items()},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [{"name": "files", "mountPath": squid.FOLDER}],
    }
