"""What counts as drift between a Proxy and its instance."""

import dataclasses
from datetime import UTC, datetime
from typing import Any

import pytest

from activities.drift import differs
from model.failures import failed_cause
from model.instance import Instance, InstanceState
from model.proxy import Condition, Proxy, ProxySpec, ProxyStatus

RUNNING = Instance(
    provider_id="box/1",
    incarnation="i1",
    name="proxy-a",
    state=InstanceState.RUNNING,
    ip="10.0.0.1",
    uid="u",
    created_at=datetime(2026, 1, 1, tzinfo=UTC),
)
READY = ProxyStatus(phase="Ready", ip="10.0.0.1", provider_id="box/1", incarnation="i1")
WAITING = Condition(type="Provisioned", status="False", reason="ProviderNotConfigured")


def proxy(status: ProxyStatus, **changes: Any) -> Proxy:
    spec = ProxySpec(mode="Managed", provider="box")
    return Proxy(namespace="ns", name="n", uid="u", generation=1, spec=spec, status=status, **changes)


def status(**changes: Any) -> ProxyStatus:
    return dataclasses.replace(READY, **changes)


def instance(**changes: Any) -> Instance:
    return dataclasses.replace(RUNNING, **changes)


@pytest.mark.parametrize(
    ("seen", "there", "drifted"),
    [
        (READY, RUNNING, False),
        (READY, None, True),
        (READY, instance(state=InstanceState.STOPPED, ip=""), True),
        (READY, instance(provider_id="box/2"), True),
        (READY, instance(incarnation="i2"), True),
        (READY, instance(ip="10.0.0.2"), True),
        # An instance that only just changes its state may have no address in the list.
        (READY, instance(ip="", state=InstanceState.COMING), False),
        # On its way: its workflow asks by itself.
        (ProxyStatus(), None, False),
        (ProxyStatus(), RUNNING, False),
        (status(ip="", phase="Provisioning"), None, False),
        # Waiting for its provider to be configured, which it is when this is asked.
        (ProxyStatus(conditions=(WAITING,)), None, True),
        # Failed for good: only another entry in the config helps.
        (ProxyStatus(phase="Failed", failed_cause=failed_cause(1, "v1-a", "e1", "")), None, False),
        (ProxyStatus(phase="Failed", failed_cause=failed_cause(1, "v1-a", "e0", "")), None, True),
        (ProxyStatus(phase="Failed", failed_cause="unreadable"), None, True),
    ],
)
def test_table(seen: ProxyStatus, there: Instance | None, drifted: bool) -> None:
    assert differs(proxy(seen), there, "e1") is drifted


def test_a_proxy_being_deleted_is_left_to_its_workflow() -> None:
    assert not differs(proxy(READY, deleting=True), None, "e1")


def test_a_paused_proxy_is_left_alone() -> None:
    frozen = proxy(READY)
    frozen = dataclasses.replace(frozen, spec=dataclasses.replace(frozen.spec, paused=True))
    assert not differs(frozen, None, "e1")
