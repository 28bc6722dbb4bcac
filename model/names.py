"""Names that users and backends meet: annotations, labels, instance names, Temporal ids and task queues."""

import base64
import hashlib

GROUP = "crawl.example.com"
VERSION = "v1alpha1"
PLURAL = "proxies"

FINALIZER_PREFIX = f"{GROUP}/"
FINALIZER = f"{GROUP}/finalizer"
ANNOTATION_SPEC_HASH = f"{GROUP}/spec-hash"
ANNOTATION_SKIP_CLEANUP = f"{GROUP}/skip-cleanup"
ANNOTATION_RETRY = f"{GROUP}/retry"
ANNOTATION_ROTATE = f"{GROUP}/rotate"
LABEL_CLOUD_INIT = f"{GROUP}/cloud-init"

MARK_MANAGED = "proxy-operator-managed"
MARK_MANAGED_VALUE = "true"
MARK_UID = "proxy-operator-uid"
MARK_INSTALLATION = "proxy-operator-installation"
MARK_SPEC_HASH = "proxy-operator-spec-hash"

QUEUE_CONTROL = "egress-control"
QUEUE_PROVIDER = "egress-provider"
QUEUE_PROBES = "egress-probes"
QUEUE_LEASES = "egress-leases"

LEASE_BROKER_ID = "lease-broker"
DRIFT_CHECK_ID = "drift-check"
ORPHAN_GC_ID = "orphan-gc"
PROVIDER_CHECK_ID = "provider-check"

WORKFLOW_ID_LIMIT = 255
"""Temporal's default limit for a workflow id, in characters."""


def instance_name(uid: str) -> str:
    """Return the name of a Proxy's instance: ``proxy-`` and 16 base32 characters of SHA-256 of its uid.

    It is a DNS label of 22 characters, legal for every backend, and the same for every incarnation of the instance.
    """
    digest = hashlib.sha256(uid.encode()).digest()
    return "proxy-" + base64.b32encode(digest).decode().lower()[:16]


def proxy_workflow_id(namespace: str, name: str) -> str:
    """Return the id of a Proxy's workflow, at most ``WORKFLOW_ID_LIMIT`` characters; a longer one ends in a hash."""
    workflow_id = f"proxy/{namespace}/{name}"
    if len(workflow_id) <= WORKFLOW_ID_LIMIT:
        return workflow_id
    digest = hashlib.sha256(workflow_id.encode()).hexdigest()[:16]
    return f"{workflow_id[: WORKFLOW_ID_LIMIT - 17]}-{digest}"


def proxy_id(namespace: str, name: str) -> str:
    """Return the id under which the lease API knows a Proxy."""
    return f"{namespace}/{name}"
