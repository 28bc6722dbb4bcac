"""Whether an API server can be used for Pods."""

import asyncio
import time
from typing import Any

from model.provider_health import (
    API_ERROR,
    FORBIDDEN,
    REACHABLE,
    TIMEOUT,
    UNAUTHORIZED,
    UNREACHABLE,
    TargetHealth,
)
from providers.kubernetes import api_errors
from providers.kubernetes.api_errors import ApiError, NoAnswerError, NoCredentialsError, RefusedError
from providers.kubernetes.connection import ApiServer

TARGET = "apiserver"
_VERBS = ("create", "delete", "get", "list", "patch")
_REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


async def check_api_server(server: ApiServer, namespace: str) -> TargetHealth:
    """Ask the API server for its version, and whether we may do with Pods all that the provider does.

    Args:
        server: Which one.
        namespace: Where; "" asks for all namespaces.
    """
    began = time.monotonic()
    address, details = "", {}
    try:
        address = await server.address()
        details = {"version": str((await server.request("GET", "/version")).get("gitVersion") or "unknown")}
        allowed = await asyncio.gather(*(_may(server, verb, namespace) for verb in _VERBS))
        denied = [verb for verb, may in zip(_VERBS, allowed, strict=True) if not may]
        reason, message = (FORBIDDEN, _denied(denied, namespace)) if denied else (REACHABLE, "")
    except ApiError as error:
        reason, message = _reason(error), str(error)
    return TargetHealth(
        name=TARGET,
        address=address,
        ready=reason == REACHABLE,
        reason=reason,
        message=message,
        latency_millis=round((time.monotonic() - began) * 1000),
        details=details,
    )


async def _may(server: ApiServer, verb: str, namespace: str) -> bool:
    attributes = {"resource": "pods", "verb": verb, "namespace": namespace}
    review: dict[str, Any] = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes},
    }
    answer = await server.request("POST", _REVIEWS, body=review)
    status = answer.get("status")
    return isinstance(status, dict) and status.get("allowed") is True


def _denied(verbs: list[str], namespace: str) -> str:
    where = f"namespace {namespace}" if namespace else "all namespaces (kubernetes.namespace is not set)"
    return f"the service account or user may not {', '.join(verbs)} pods in {where}; grant it a role that allows it"


def _reason(error: ApiError) -> str:
    if isinstance(error, NoCredentialsError):
        return UNAUTHORIZED
    if isinstance(error, NoAnswerError):
        return TIMEOUT if error.timed_out else UNREACHABLE
    if isinstance(error, RefusedError) and error.code == api_errors.UNAUTHORIZED:
        return UNAUTHORIZED
    if isinstance(error, RefusedError) and error.code == api_errors.FORBIDDEN:
        return FORBIDDEN
    return API_ERROR
