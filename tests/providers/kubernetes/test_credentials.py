"""Credentials: service accounts on a real API server, rotation, and the check that tells about them."""

import asyncio
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from kubernetes.aio.config import incluster_config

from model.errors import AccessDeniedError
from model.provider_health import FORBIDDEN, REACHABLE, UNAUTHORIZED, UNREACHABLE
from providers.kubernetes.provider import KubernetesProvider
from tests.cluster.scripted_api import write_kubeconfig
from tests.providers.kubernetes.api import Namespace
from tests.providers.kubernetes.conftest import ProviderFactory
from tests.support.listening import listen

RBAC = "/apis/rbac.authorization.k8s.io/v1"


async def service_account_token(namespace: Namespace) -> str:
    body: dict[str, Any] = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    path = f"{namespace.path}/serviceaccounts/default/token"
    return str((await namespace.relay.admin("POST", path, body))["status"]["token"])


async def allow_pods(namespace: Namespace, verbs: list[str]) -> None:
    rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": verbs}]
    await namespace.add("roles", {"metadata": {"name": "pods"}, "rules": rules}, RBAC)
    subjects = [{"kind": "ServiceAccount", "name": "default", "namespace": namespace.name}]
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "pods"}
    await namespace.add("rolebindings", {"metadata": {"name": "pods"}, "roleRef": role, "subjects": subjects}, RBAC)


def token_kubeconfig(namespace: Namespace, path: Path, token_file: Path) -> Path:
    server, authority = namespace.relay.upstream
    write_kubeconfig(path, server)
    config = json.loads(path.read_text())
    config["clusters"][0]["cluster"]["certificate-authority"] = authority
    config["users"][0]["user"] = {"tokenFile": str(token_file)}
    path.write_text(json.dumps(config))
    return path


def swap(link: Path, content: str) -> None:
    """Point the link to a new file, as a kubelet does."""
    target = link.with_name(f"{link.name}-{os.urandom(4).hex()}")
    target.write_text(content)
    fresh = link.with_suffix(".new")
    fresh.symlink_to(target)
    fresh.replace(link)


@pytest.fixture(params=["kubeconfig", "service account"])
def rotating(
    request: pytest.FixtureRequest,
    make_provider: ProviderFactory,
    namespace: Namespace,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> tuple[KubernetesProvider, Path]:
    """A provider whose token is refused, and the link to the token's file."""
    link = tmp_path / "token"
    swap(link, "an-expired-token")
    if request.param == "kubeconfig":
        return make_provider(kubeconfig=str(token_kubeconfig(namespace, tmp_path / "config", link))), link
    server, authority = namespace.relay.upstream
    host, _, port = server.removeprefix("https://").partition(":")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", host)
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", port)
    monkeypatch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", str(link))
    monkeypatch.setattr(incluster_config, "SERVICE_CERT_FILENAME", authority)
    return make_provider(kubeconfig=None), link


async def test_a_rotated_token_needs_no_restart(
    rotating: tuple[KubernetesProvider, Path], namespace: Namespace
) -> None:
    provider, link = rotating
    await allow_pods(namespace, ["*"])
    with pytest.raises(AccessDeniedError, match="HTTP 401"):
        await provider.list_managed()
    (verdict,) = await provider.check()
    assert verdict.reason == UNAUTHORIZED
    swap(link, await service_account_token(namespace))
    assert await provider.list_managed() == []
    assert (await provider.check())[0].reason == REACHABLE


async def test_an_exchanged_kubeconfig_needs_no_restart(
    make_provider: ProviderFactory, namespace: Namespace, kubeconfig: Path, tmp_path: Path
) -> None:
    path = tmp_path / "config"
    provider = make_provider(kubeconfig=str(path))
    with pytest.raises(AccessDeniedError, match="there is no such file"):
        await provider.list_managed()
    with listen("127.0.0.1") as stranger:
        port = stranger.getsockname()[1]
    write_kubeconfig(path, f"http://127.0.0.1:{port}")
    (verdict,) = await provider.check()
    assert (verdict.reason, verdict.address) == (UNREACHABLE, f"http://127.0.0.1:{port}")
    await asyncio.to_thread(shutil.copyfile, kubeconfig, path)
    assert await provider.list_managed() == []


@pytest.mark.parametrize("content", ["", "[]", "a: [", "users: [{name: S3cr3t, user: {token: S3cr3t}}]", "\0"])
async def test_a_damaged_kubeconfig_is_named_and_not_shown(
    make_provider: ProviderFactory, tmp_path: Path, content: str
) -> None:
    path = tmp_path / "config"
    path.write_text(content)
    provider = make_provider(kubeconfig=str(path))
    with pytest.raises(AccessDeniedError, match=r"kubeconfig .*: cannot be used") as refused:
        await provider.list_managed()
    assert "S3cr3t" not in str(refused.value)
    assert (await provider.check())[0].reason == UNAUTHORIZED


async def test_the_rights_of_the_sample_are_enough_and_what_is_missing_is_named(
    make_provider: ProviderFactory, namespace: Namespace, tmp_path: Path
) -> None:
    link = tmp_path / "token"
    swap(link, await service_account_token(namespace))
    provider = make_provider(kubeconfig=str(token_kubeconfig(namespace, tmp_path / "config", link)))
    with pytest.raises(AccessDeniedError, match="cannot get resource"):
        await provider.create(namespace.request())
    (verdict,) = await provider.check()
    assert verdict.reason == FORBIDDEN
    assert f"may not create, delete, get, list, patch pods in namespace {namespace.name}" in verdict.message
    await allow_pods(namespace, ["create", "get", "list", "delete", "patch"])
    instance = await provider.create(namespace.request())
    await provider.write_marks(instance.provider_id, instance.incarnation, "ours", "v1-b")
    assert [one.spec_hash for one in await provider.list_managed()] == ["v1-b"]
    await provider.delete(instance.provider_id, instance.incarnation)
    (verdict,) = await provider.check()
    assert (verdict.name, verdict.ready, verdict.reason) == ("apiserver", True, REACHABLE)
    assert verdict.details["version"].startswith("v1.")
