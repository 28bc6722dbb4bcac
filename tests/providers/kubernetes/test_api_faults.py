"""Answers that a real API server does not give on demand, and what the caller is told."""

import time
from typing import Any

import pytest
from aiohttp import web

from model.errors import (
    AccessDeniedError,
    PermanentError,
    ProviderError,
    QuotaExceededError,
    TransientError,
)
from model.names import instance_name
from model.proxy import Placement
from providers.contract import CreateRequest
from providers.kubernetes.provider import KubernetesProvider
from tests.cluster.scripted_api import Handler, ScriptedApi

REQUEST = CreateRequest(
    name=instance_name("uid-a"),
    uid="uid-a",
    installation="ours",
    namespace="elsewhere",
    proxy_name="one",
    placement=Placement(),
    port=3128,
    spec_hash="v1-a",
)
RBAC = 'pods is forbidden: User "system:serviceaccount:a:b" cannot list resource "pods" in API group ""'
HTML = "<html>not here</html>"


def status(code: int, message: str, reason: str = "", kind: str = "pods") -> dict[str, Any]:
    details = {"kind": kind}
    return {
        "kind": "Status",
        "status": "Failure",
        "code": code,
        "reason": reason,
        "message": message,
        "details": details,
    }


def answering(code: int, body: Any) -> Handler:
    async def answer(_request: web.Request) -> web.Response:
        return web.Response(text=body, status=code) if isinstance(body, str) else web.json_response(body, status=code)

    return answer


def refusing_posts(code: int, body: Any) -> Handler:
    async def answer(request: web.Request) -> web.StreamResponse:
        if request.method == "POST":
            return await answering(code, body)(request)
        return web.json_response(status(404, "not found", "NotFound"), status=404)

    return answer


@pytest.mark.parametrize(
    ("code", "body", "error"),
    [
        (401, status(401, "Unauthorized", "Unauthorized"), AccessDeniedError),
        (403, status(403, RBAC, "Forbidden"), AccessDeniedError),
        (403, status(403, "something new", "Forbidden"), AccessDeniedError),
        (403, HTML, AccessDeniedError),
        (404, HTML, TransientError),
        (404, status(404, "the server could not find the requested resource", "NotFound", ""), TransientError),
        (404, status(404, "page not found"), TransientError),
        (429, status(429, "too many requests", "TooManyRequests"), TransientError),
        (500, status(500, "etcdserver: request timed out", "InternalError"), TransientError),
        (503, HTML, TransientError),
        (400, HTML, TransientError),
        (200, HTML, TransientError),
        (200, "[]", TransientError),
        (200, {"kind": "Pod", "metadata": {"name": "another"}}, TransientError),
    ],
)
async def test_a_look_that_is_refused_is_never_taken_for_gone(
    scripted: ScriptedApi, to_scripted: KubernetesProvider, code: int, body: Any, error: type[ProviderError]
) -> None:
    scripted.on_list = answering(code, body)
    for call in (
        to_scripted.get("ns/p"),
        to_scripted.find("p"),
        to_scripted.list_managed(),
        to_scripted.delete("ns/p", ""),
    ):
        with pytest.raises(ProviderError) as refused:
            await call
        assert type(refused.value) is error


@pytest.mark.parametrize(
    ("code", "message", "error"),
    [
        (403, 'pods "x" is forbidden: exceeded quota: q, requested: pods=1, used: pods=1', QuotaExceededError),
        (403, 'pods "x" is forbidden: failed quota: q: must specify limits.memory for: squid', PermanentError),
        (403, 'pods "x" is forbidden: violates PodSecurity "restricted:latest": x', PermanentError),
        (403, 'admission webhook "policy.example" denied the request: no squid here', PermanentError),
        (403, 'pods "x" is forbidden: error looking up service account ns/default: not found', TransientError),
        (403, 'pods "x" is forbidden: status unknown for quota: q, resources: pods', TransientError),
        (400, "Pod in version v1 cannot be handled as a Pod: quantities must match", PermanentError),
        (422, 'Pod "x" is invalid: spec.containers[0].image: Required value', PermanentError),
        (500, 'Internal error occurred: failed calling webhook "policy.example": timeout', TransientError),
        (409, "Operation cannot be fulfilled on resourcequotas: the object has been modified", TransientError),
    ],
)
async def test_a_create_that_is_refused_says_when_to_come_again(
    scripted: ScriptedApi, to_scripted: KubernetesProvider, code: int, message: str, error: type[ProviderError]
) -> None:
    scripted.on_list = refusing_posts(code, status(code, message))
    with pytest.raises(ProviderError) as refused:
        await to_scripted.create(REQUEST)
    assert type(refused.value) is error
    assert message.split(": ")[-1] in str(refused.value)


async def test_a_silent_server_is_given_up_on(scripted: ScriptedApi, to_scripted: KubernetesProvider) -> None:
    scripted.on_list = scripted.silence
    began = time.monotonic()
    with pytest.raises(TransientError, match="GET /api/v1/namespaces/ns/pods/p: no answer in time"):
        await to_scripted.get("ns/p")
    assert time.monotonic() - began < 5
    (verdict,) = await to_scripted.check()
    assert (verdict.ready, verdict.reason) == (False, "Timeout")


async def test_a_list_that_expires_on_the_way_starts_again(
    scripted: ScriptedApi, to_scripted: KubernetesProvider
) -> None:
    pages = iter([("more", 200), ("", 410), ("", 200)])

    async def answer(request: web.Request) -> web.Response:
        token, code = next(pages)
        if code == 410:
            return web.json_response(status(410, "the provided continue parameter is too old", "Expired"), status=410)
        number = len(scripted.lists)
        metadata = {"name": f"p{number}", "namespace": "ns", "uid": f"u{number}", "resourceVersion": "1"}
        items = [{"metadata": {**metadata, "creationTimestamp": "2026-01-02T03:04:05Z"}}]
        return web.json_response({"kind": "PodList", "metadata": {"continue": token}, "items": items})

    scripted.on_list = answer
    assert [instance.name for instance in await to_scripted.list_managed()] == ["p3"]


async def test_a_list_that_fails_on_a_later_page_is_no_list(
    scripted: ScriptedApi, to_scripted: KubernetesProvider
) -> None:
    async def answer(request: web.Request) -> web.Response:
        if "continue" in request.query:
            return web.json_response(status(500, "no leader"), status=500)
        return web.json_response({"kind": "PodList", "metadata": {"continue": "more"}, "items": []})

    scripted.on_list = answer
    with pytest.raises(TransientError):
        await to_scripted.list_managed()


async def test_refused_credentials_are_read_and_tried_once_more_only(
    scripted: ScriptedApi, to_scripted: KubernetesProvider
) -> None:
    scripted.on_list = answering(401, status(401, "Unauthorized", "Unauthorized"))
    with pytest.raises(AccessDeniedError):
        await to_scripted.get("ns/p")
    assert len(scripted.lists) == 2


async def test_a_page_of_an_error_is_cut(scripted: ScriptedApi, to_scripted: KubernetesProvider) -> None:
    scripted.on_list = answering(500, status(500, "Authorization: Bearer S3cr3t " + "x" * 2_000_000))
    with pytest.raises(TransientError) as refused:
        await to_scripted.get("ns/p")
    assert len(str(refused.value).encode()) <= 1024
    assert "S3cr3t" not in str(refused.value)


HOSTILE: dict[str, Any] = {
    "status is a list": {"status": ["x"]},
    "phase is a list": {"status": {"phase": ["Running"]}},
    "conditions hold nothing": {"status": {"phase": "Running", "conditions": [None]}},
    "conditions are a number": {"status": {"phase": "Running", "conditions": 5}},
    "containers hold words": {"status": {"phase": "Pending", "containerStatuses": ["x"]}},
    "a state is a word": {"status": {"phase": "Pending", "containerStatuses": [{"state": "x"}]}},
    "the address is a number": {
        "status": {"phase": "Running", "podIP": 7, "conditions": [{"type": "Ready", "status": "True"}]}
    },
    "the address is none": {
        "status": {"phase": "Running", "podIP": "evil.example", "conditions": [{"type": "Ready", "status": "True"}]}
    },
    "finalizers are numbers": {"metadata": {"deletionTimestamp": "2026-01-02T03:04:05Z", "finalizers": [1]}},
    "labels are a list": {"metadata": {"labels": ["x"]}},
    "a label is a number": {"metadata": {"labels": {"proxy-operator-uid": 5}}},
    "the time is a word": {"metadata": {"creationTimestamp": "yesterday"}},
    "the time has no zone": {"metadata": {"creationTimestamp": "2026-01-02T03:04:05"}},
    "the uid is nothing": {"metadata": {"uid": None}},
}


@pytest.mark.parametrize("fault", HOSTILE)
async def test_a_pod_that_no_api_server_sends_tells_nothing(
    scripted: ScriptedApi, to_scripted: KubernetesProvider, fault: str
) -> None:
    """Neither gone nor stopped nor foreign: nothing is known, and the next look may tell."""
    metadata = {
        "name": REQUEST.name,
        "namespace": "ns",
        "uid": "u",
        "resourceVersion": "1",
        "creationTimestamp": "2026-01-02T03:04:05Z",
        "labels": {
            "proxy-operator-managed": "true",
            "proxy-operator-uid": REQUEST.uid,
            "proxy-operator-installation": "ours",
        },
    }
    changes = HOSTILE[fault]
    pod = {"kind": "Pod", **changes, "metadata": {**metadata, **changes.get("metadata", {})}}

    async def answer(request: web.Request) -> web.Response:
        whole = request.path.endswith("/pods")
        return web.json_response({"kind": "PodList", "metadata": {}, "items": [pod]} if whole else pod)

    scripted.on_list = answer
    calls = (
        to_scripted.get(f"ns/{REQUEST.name}"),
        to_scripted.find(REQUEST.name),
        to_scripted.list_managed(),
        to_scripted.create(REQUEST),
    )
    for call in calls:
        with pytest.raises(TransientError):
            await call


async def test_a_body_that_stops_in_the_middle_is_given_up_on(
    scripted: ScriptedApi, to_scripted: KubernetesProvider
) -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Length": "1000"})
        await response.prepare(request)
        await response.write(b'{"kind": "Pod", ')
        return await scripted.silence(request)

    scripted.on_list = answer
    began = time.monotonic()
    with pytest.raises(TransientError, match="no answer in time"):
        await to_scripted.get("ns/p")
    assert time.monotonic() - began < 5
