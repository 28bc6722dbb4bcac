"""Objects that are no Proxy any more, or never were."""

from typing import Any

import pytest

from cluster.errors import UnreadableObjectError
from cluster.objects import read_proxy_object
from tests.cluster.scripted_api import item


def body(**changes: Any) -> dict[str, Any]:
    return {**item("one"), "spec": {"mode": "External", "endpoint": {"host": "h", "port": 1}}, **changes}


def test_a_proxy_is_read_with_everything_it_has() -> None:
    conditions = [{"type": "Ready", "status": "True"}]
    spec = {"mode": "Managed", "maxAgeSeconds": 60, "attributes": {"a": "b"}, "cloudInit": {"inline": "x"}}
    proxy = read_proxy_object(body(spec=spec, status={"latencyMillis": 3, "conditions": conditions}))
    assert (proxy.id, proxy.spec.max_age_seconds, proxy.status.latency_millis) == ("ns/one", 60, 3)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"spec": "nothing"}, "AttributeError"),
        ({"spec": {"port": "3128"}}, "spec: port: str is no int"),
        ({"spec": {"port": True}}, "spec: port: bool is no int"),
        ({"spec": {"paused": 1}}, "spec: paused: int is no bool"),
        ({"spec": {"maxAgeSeconds": "x"}}, "spec: max_age_seconds: str is no int"),
        ({"spec": {"attributes": ["a"]}}, "ValueError"),
        ({"spec": {"attributes": {"a": 1}}}, "spec: attributes: int is no str"),
        ({"spec": {"cloudInit": {"secretRef": {"name": ["x"]}}}}, "spec: cloud_init: secret_name: list is no str"),
        ({"spec": {"healthCheck": {"expectedStatusCodes": ["200"]}}}, "expected_status_codes: str is no int"),
        ({"status": {"conditions": [{"status": "True"}]}}, "KeyError: 'type'"),
        ({"status": {"conditions": "x"}}, "TypeError"),
        ({"status": {"latencyMillis": {}}}, "status: latency_millis: dict is no int"),
        ({"metadata": {"namespace": "ns", "name": "one"}}, "KeyError: 'uid'"),
        ({"metadata": {"namespace": "ns", "name": "one", "uid": 5}}, "uid: int is no str"),
        ({"metadata": None}, "without metadata"),
    ],
)
def test_what_is_no_proxy_is_named_with_its_field(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(UnreadableObjectError) as raised:
        read_proxy_object(body(**changes))
    assert words in str(raised.value)


def test_a_value_in_the_wrong_place_is_not_told() -> None:
    with pytest.raises(UnreadableObjectError) as raised:
        read_proxy_object(body(spec={"cloudInit": {"inline": {"users": "S3cr3t"}}}))
    assert "S3cr3t" not in str(raised.value)
    assert "ns/one" in str(raised.value)
