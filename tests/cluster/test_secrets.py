"""Cloud-init from a real API server's Secrets."""

import asyncio
import base64
import dataclasses
import traceback
from typing import Any

import pytest

from cluster.connection import ClusterConnection
from cluster.secrets import CloudInitError, CloudInitReader, ResolvedCloudInit
from model.proxy import CloudInit, Proxy, ProxySpec
from tests.cluster.scripted_api import ScriptedApi, refusal
from tests.support.kubectl import Kubectl

LABEL = {"crawl.example.com/cloud-init": "true"}
SENTINEL = "S3cr3t-xyz"


def wanting(namespace: str, cloud_init: CloudInit | None) -> Proxy:
    spec = ProxySpec(mode="Managed", provider="box", cloud_init=cloud_init)
    return Proxy(namespace=namespace, name="one", uid="u", generation=1, spec=spec)


async def make(kubectl: Kubectl, data: dict[str, bytes], labels: dict[str, str] | None = None) -> str:
    """Create the Secret; return its version."""
    body: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "init", "labels": LABEL if labels is None else labels},
        "data": {key: base64.b64encode(value).decode() for key, value in data.items()},
    }
    result = await asyncio.to_thread(kubectl.apply, body)
    assert result.returncode == 0, result.stderr
    return str((await asyncio.to_thread(kubectl.get, "secret", "init"))["metadata"]["resourceVersion"])


@pytest.fixture
def reader(connection: ClusterConnection) -> CloudInitReader:
    return CloudInitReader(connection)


async def read(reader: CloudInitReader, kubectl: Kubectl, key: str = "") -> ResolvedCloudInit:
    return await reader.read(wanting(kubectl.namespace, CloudInit(secret_name="init", secret_key=key)))


async def test_none_and_inline_need_no_server(to_scripted: ClusterConnection, scripted: ScriptedApi) -> None:
    reader = CloudInitReader(to_scripted)
    assert await reader.read(wanting("ns", None)) == ResolvedCloudInit()
    assert await reader.read(wanting("ns", CloudInit(inline="x"))) == ResolvedCloudInit(text="x")
    assert scripted.lists == []


@pytest.mark.parametrize(
    ("data", "key", "text"),
    [
        ({"user-data": b"a"}, "", "a"),
        ({"only": b"b"}, "", "b"),
        ({"user-data": b"a", "other": b"b"}, "", "a"),
        ({"user-data": b"a", "other": b"b"}, "other", "b"),
        ({"user-data": "é🦑\n".encode()}, "user-data", "é🦑\n"),
        ({"user-data": b""}, "", ""),
    ],
)
async def test_key_rules(
    reader: CloudInitReader, kubectl: Kubectl, data: dict[str, bytes], key: str, text: str
) -> None:
    version = await make(kubectl, data)
    assert await read(reader, kubectl, key) == ResolvedCloudInit(text=text, secret_version=version)


@pytest.mark.parametrize(
    ("data", "key", "words"),
    [
        ({"a": b"x", "b": b"y"}, "", 'has no key "user-data"'),
        ({}, "", 'has no key "user-data"'),
        ({"user-data": b"x"}, "other", 'has no key "other"'),
        ({"user-data": b"\xff" + SENTINEL.encode()}, "", 'the value of key "user-data" is not UTF-8 text'),
    ],
)
async def test_a_labelled_secret_that_lacks_something_is_named_with_its_version(
    reader: CloudInitReader, kubectl: Kubectl, data: dict[str, bytes], key: str, words: str
) -> None:
    version = await make(kubectl, data)
    with pytest.raises(CloudInitError) as refused:
        await read(reader, kubectl, key)
    assert str(refused.value) == f"spec.cloudInit.secretRef: Secret {kubectl.namespace}/init{words_of(words)}"
    # The watcher sees this version too: the same fingerprint must not be evaluated twice.
    assert refused.value.secret_version == version
    assert SENTINEL not in "".join(traceback.format_exception(refused.value))


def words_of(words: str) -> str:
    return f" {words}" if words.startswith("has") else f": {words}"


@pytest.mark.parametrize("labels", [{}, {"crawl.example.com/cloud-init": "false"}, {"cloud-init": "true"}])
async def test_a_secret_without_the_label_is_not_read_and_the_label_is_named(
    reader: CloudInitReader, kubectl: Kubectl, labels: dict[str, str]
) -> None:
    await make(kubectl, {"user-data": SENTINEL.encode()}, labels)
    with pytest.raises(CloudInitError, match=r'lacks the label crawl\.example.com/cloud-init="true"') as refused:
        await read(reader, kubectl)
    assert refused.value.secret_version == ""


async def test_a_missing_secret_is_named(reader: CloudInitReader, kubectl: Kubectl) -> None:
    with pytest.raises(CloudInitError, match=f"there is no Secret {kubectl.namespace}/init"):
        await read(reader, kubectl)


async def test_a_forbidden_secret_is_named(scripted: ScriptedApi, to_scripted: ClusterConnection) -> None:
    async def forbid(_request: Any) -> Any:
        return refusal(403, "secrets is forbidden")

    scripted.on_list = forbid
    with pytest.raises(CloudInitError, match="not allowed to read Secret ns/init"):
        await CloudInitReader(to_scripted).read(wanting("ns", CloudInit(secret_name="init")))


def test_the_text_is_in_nobodys_words() -> None:
    resolved = ResolvedCloudInit(text=SENTINEL, secret_version="1")
    assert SENTINEL not in repr(resolved)
    assert SENTINEL not in repr(CloudInit(inline=SENTINEL))
    assert SENTINEL not in repr(dataclasses.replace(wanting("ns", CloudInit(inline=SENTINEL))))
