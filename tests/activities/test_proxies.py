"""What of a Proxy may enter a history."""

import dataclasses
import json
from typing import Any

import pytest
from temporalio.converter import DataConverter

from activities.proxies import without_secrets
from model import messages, names
from model.proxy import Proxy, proxy_from_object
from model.reasons import Provisioned
from model.status import Facts, Health, build_status

SENTINEL = "S3cr3t-xyz"


def proxy(**spec: Any) -> Proxy:
    """A Proxy as kubectl leaves it: with a copy of the whole manifest in an annotation."""
    manifest = {"spec": {"mode": "Managed", "provider": "box", **spec}}
    return proxy_from_object(
        {
            "metadata": {
                "namespace": "ns",
                "name": "n",
                "uid": "u",
                "generation": 2,
                "annotations": {
                    "kubectl.kubernetes.io/last-applied-configuration": json.dumps(manifest),
                    "someone.example.com/note": SENTINEL,
                    "crawl.example.com/unknown": SENTINEL,
                    names.ANNOTATION_RETRY: "1",
                    names.ANNOTATION_ROTATE: "2",
                    names.ANNOTATION_SKIP_CLEANUP: "true",
                    names.ANNOTATION_SPEC_HASH: "v1-a",
                },
                "finalizers": [names.FINALIZER],
            },
            **manifest,
        }
    )


async def encoded(value: Any) -> bytes:
    payloads = await DataConverter.default.encode([value])
    return bytes(payloads[0].data)


@pytest.mark.parametrize(
    "cloud_init",
    [{"inline": f"#cloud-config\npassword: {SENTINEL}"}, {"secretRef": {"name": SENTINEL, "key": SENTINEL}}],
    ids=["inline", "secretRef"],
)
async def test_neither_cloud_init_nor_a_foreign_annotation_survives(cloud_init: dict[str, Any]) -> None:
    original = proxy(cloudInit=cloud_init)
    assert SENTINEL.encode() in await encoded(messages.ProxyReading(proxy=original))
    kept = without_secrets(original)
    assert SENTINEL.encode() not in await encoded(messages.ProxyReading(proxy=kept))
    assert SENTINEL not in repr(kept)
    assert kept.annotations == {
        names.ANNOTATION_RETRY: "1",
        names.ANNOTATION_ROTATE: "2",
        names.ANNOTATION_SKIP_CLEANUP: "true",
        names.ANNOTATION_SPEC_HASH: "v1-a",
    }


def test_what_the_workflow_needs_survives() -> None:
    original = proxy(attributes={"a": "b"}, maxLeases=2, port=1, healthCheck={"intervalSeconds": 3})
    kept = without_secrets(original)
    assert dataclasses.replace(kept, annotations=original.annotations) == original


def test_inline_cloud_init_is_not_in_the_words_of_the_object() -> None:
    assert SENTINEL not in repr(dataclasses.replace(proxy(cloudInit={"inline": SENTINEL}), annotations={}))


async def test_the_largest_reading_stays_below_10_kilobytes() -> None:
    health = Health(status="False", reason="UnexpectedStatus", message="m " * 600)
    running = Facts(
        managed=True,
        provisioned=True,
        reason=Provisioned.RUNNING,
        message="m " * 600,
        ip="10.0.0.1",
        provider_id="p" * 100,
        incarnation="i" * 40,
        failed_cause="c" * 150,
        handled_retry="v" * 128,
        handled_rotate="v" * 128,
        health=health,
    )
    original = proxy(
        attributes={f"key-{number:03}": "v" * 57 for number in range(64)},
        placement=dict.fromkeys(("region", "zone", "machineType", "image"), "p" * 512),
        cloudInit={"inline": "x" * 131072},
    )
    long = dataclasses.replace(
        original,
        namespace="n" * 63,
        name="n" * 253,
        annotations=dict.fromkeys((names.ANNOTATION_RETRY, names.ANNOTATION_ROTATE), "v" * 4096)
        | {names.ANNOTATION_SKIP_CLEANUP: "true", names.ANNOTATION_SPEC_HASH: "v1-" + "a" * 32},
        status=build_status(original.status, running, "2026-01-01T00:00:00Z"),
    )
    assert max(len(condition.message) for condition in long.status.conditions) == 1024
    reading = messages.ProxyReading(proxy=without_secrets(long), spec_hash="v1-" + "a" * 32, fingerprint="f" * 16)
    assert len(await encoded(reading)) < 10_000
