"""The life of an instance, with real proxies."""

import http.client
import json
import os
import signal
import socket
import subprocess
from pathlib import Path

import pytest

from model.errors import PermanentError, TransientError
from model.instance import InstanceState
from providers.local import addresses, forward_proxy
from providers.local import box as box_module
from providers.local import software as software_module
from providers.local.provider import stop_all_processes
from providers.local.records import InstanceRecord
from providers.local.settings import Software
from tests.providers.local.boxes import TestBox, gone, in_state, running, shared_memory
from tests.providers.local.conftest import BoxFactory
from tests.providers.polling import until


async def test_create_twice_makes_one_process_that_runs(box: TestBox) -> None:
    provider = box.provider()
    first = await provider.create(box.request())
    second = await provider.create(box.request())
    assert (second.provider_id, second.incarnation) == (first.provider_id, first.incarnation)
    instance = await running(provider, first.provider_id)
    assert instance.ip == box.address(0)
    assert (instance.uid, instance.installation, instance.spec_hash) == ("uid-of-proxy-a", "ours", "v1-a")
    assert instance.created_at == first.created_at
    assert instance.created_at.tzinfo is not None
    assert await provider.find("proxy-a") == instance
    assert await provider.list_managed() == [instance]
    assert await provider.find("proxy-b") is None
    assert box.processes() == [box.record()["process"]["pid"]]
    assert await box.provider().get(first.provider_id) == instance


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_a_running_instance_is_a_forward_proxy(box: TestBox, origin: int, host: str) -> None:
    provider = box.provider()
    instance = await running(provider, (await provider.create(box.request())).provider_id)

    plain = http.client.HTTPConnection(instance.ip, box.port, timeout=10)
    plain.request("GET", f"http://{host}:{origin}/", headers={"X-Forwarded-For": "1.2.3.4"})
    answer = plain.getresponse()
    body = answer.read().decode()
    plain.close()
    assert (answer.status, body.startswith("page for ")) == (200, True)
    assert "'via'" not in body
    assert "forwarded" not in body

    tunnel = http.client.HTTPConnection(instance.ip, box.port, timeout=10)
    tunnel.set_tunnel(host, origin)
    tunnel.request("GET", "/")
    answer = tunnel.getresponse()
    assert (answer.status, answer.read().startswith(b"page for ")) == (200, True)
    tunnel.close()


async def test_a_target_that_is_down_is_a_bad_gateway_or_unavailable(box: TestBox) -> None:
    provider = box.provider()
    instance = await running(provider, (await provider.create(box.request())).provider_id)
    tunnel = http.client.HTTPConnection(instance.ip, box.port, timeout=10)
    tunnel.set_tunnel("127.0.0.1", 1)
    with pytest.raises(OSError, match=r"50[23]"):
        tunnel.request("GET", "/")
    tunnel.close()
    assert (await provider.get(instance.provider_id)).state is InstanceState.RUNNING


async def test_delete_ends_the_process_and_may_be_repeated(box: TestBox) -> None:
    provider = box.provider()
    instance = await running(provider, (await provider.create(box.request())).provider_id)
    await provider.delete(instance.provider_id, instance.incarnation)
    await provider.delete(instance.provider_id, instance.incarnation)
    await gone(provider, instance.provider_id)
    assert box.processes() == []
    assert await provider.find("proxy-a") is None
    assert await provider.list_managed() == []
    assert not box.record_file().parent.exists()
    await provider.delete(instance.provider_id, instance.incarnation)
    await provider.delete(instance.provider_id, "")


async def test_an_instance_being_deleted_is_still_there_and_not_adopted(
    proxy_py_box: TestBox, monkeypatch: pytest.MonkeyPatch
) -> None:
    box, provider = proxy_py_box, proxy_py_box.provider()
    instance = await running(provider, (await provider.create(box.request())).provider_id)
    (pid,) = box.processes()
    os.kill(pid, signal.SIGSTOP)
    await provider.delete(instance.provider_id, instance.incarnation)
    dying = await provider.get(instance.provider_id)
    assert (dying.state, dying.ip, dying.message) == (InstanceState.STOPPED, "", "it is being deleted")
    assert await provider.list_managed() == [dying]
    with pytest.raises(TransientError, match="still going away"):
        await provider.create(box.request())
    monkeypatch.setattr(box_module, "KILL_AFTER_SECONDS", 0.0)
    assert await gone(provider, instance.provider_id) >= 0
    assert box.processes() == []
    assert (await provider.create(box.request())).incarnation != instance.incarnation


async def test_an_abandoned_deletion_is_finished_by_the_list(proxy_py_box: TestBox) -> None:
    box, provider = proxy_py_box, proxy_py_box.provider()
    instance = await provider.create(box.request())
    await provider.delete(instance.provider_id, "")
    await until(lambda: box.processes() == [])
    assert await provider.list_managed() == []
    assert not box.record_file().exists()


async def test_a_replacement_keeps_the_address_and_spares_it_from_old_deletes(box: TestBox) -> None:
    provider = box.provider()
    old = await running(provider, (await provider.create(box.request())).provider_id)
    await provider.delete(old.provider_id, old.incarnation)
    await gone(provider, old.provider_id)
    other = await running(provider, (await provider.create(box.request("proxy-b"))).provider_id)
    new = await running(provider, (await provider.create(box.request(spec_hash="v1-b"))).provider_id)
    assert (old.ip, other.ip, new.ip) == (box.address(0), box.address(1), box.address(0))
    assert new.provider_id == old.provider_id
    assert new.incarnation != old.incarnation
    assert new.spec_hash == "v1-b"
    await provider.delete(old.provider_id, old.incarnation)
    assert (await provider.get(new.provider_id)).state is InstanceState.RUNNING


async def test_a_killed_process_is_stopped_and_can_be_replaced(box: TestBox) -> None:
    provider = box.provider()
    instance = await running(provider, (await provider.create(box.request())).provider_id)
    os.kill(box.record()["process"]["pid"], signal.SIGKILL)
    stopped = await in_state(provider, instance.provider_id, InstanceState.STOPPED)
    assert (stopped.ip, stopped.incarnation) == ("", instance.incarnation)
    assert stopped.message == f"{box.software} has ended"
    assert await provider.list_managed() == [stopped]
    assert (await provider.create(box.request())).state is InstanceState.STOPPED
    await provider.delete(instance.provider_id, instance.incarnation)
    assert await gone(provider, instance.provider_id) == 0
    assert shared_memory(instance.incarnation) == []
    await running(provider, (await provider.create(box.request())).provider_id)
    assert len(box.processes()) == 1


async def test_an_instance_that_cannot_listen_is_stopped_with_its_last_words(
    box: TestBox, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider = box.provider()
    monkeypatch.setattr(addresses, "port_state", lambda *_: addresses.Port.FREE)
    with socket.create_server((box.address(0), box.port)):
        instance = await provider.create(box.request())
        assert instance.state is not InstanceState.RUNNING
        stopped = await in_state(provider, instance.provider_id, InstanceState.STOPPED)
    assert stopped.message.startswith(f"{box.software} has ended; ")
    assert "Address already in use" in stopped.message


async def test_the_address_of_a_stopped_instance_is_not_given_away(proxy_py_box: TestBox) -> None:
    box, provider = proxy_py_box, proxy_py_box.provider()
    instance = await running(provider, (await provider.create(box.request())).provider_id)
    os.kill(box.record()["process"]["pid"], signal.SIGKILL)
    await in_state(provider, instance.provider_id, InstanceState.STOPPED)
    await provider.create(box.request("proxy-b"))
    assert box.record("proxy-b")["address"] == box.address(1)


async def test_stop_all_ends_every_process_and_keeps_the_records(box: TestBox) -> None:
    provider = box.provider()
    instances = [await provider.create(box.request(f"proxy-{letter}")) for letter in "abc"]
    for instance in instances:
        await running(provider, instance.provider_id)
    assert await stop_all_processes(box.state_dir) == 3
    assert box.processes() == []
    again = await box.provider().list_managed()
    assert [instance.state for instance in again] == [InstanceState.STOPPED] * 3
    assert [instance.incarnation for instance in again] == [instance.incarnation for instance in instances]
    assert await stop_all_processes(box.state_dir) == 0


async def test_the_environment_of_the_worker_stays_with_the_worker(
    box: TestBox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEMPORAL_API_KEY", "S3cr3t-xyz")
    provider = box.provider()
    await running(provider, (await provider.create(box.request())).provider_id)
    environment = box.process_file("environ")
    assert "PATH=" in environment
    assert "S3cr3t-xyz" not in environment


async def test_a_process_has_bounded_descriptors_and_a_session_of_its_own(box: TestBox) -> None:
    provider = box.provider()
    await running(provider, (await provider.create(box.request())).provider_id)
    pid = box.record()["process"]["pid"]
    (line,) = [line for line in box.process_file("limits").splitlines() if line.startswith("Max open files")]
    assert int(line.split()[3]) <= software_module.MAX_FILES
    assert os.getsid(pid) == pid


@pytest.mark.parametrize(
    ("installed", "chosen"), [("/usr/sbin/squid", "squid"), (None, "proxy.py")], ids=["with squid", "without squid"]
)
def test_auto_takes_squid_when_it_is_installed(
    installed: str | None, chosen: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(software_module, "find_squid", lambda: installed)
    assert software_module.choose(Software.AUTO).value == chosen
    assert software_module.choose(Software.PROXY_PY).value == "proxy.py"


async def test_squid_that_is_not_installed_is_permanent_and_says_what_to_do(
    make_box: BoxFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    box = make_box("squid")
    monkeypatch.setattr(software_module, "find_squid", lambda: None)
    with pytest.raises(PermanentError, match=r"local\.software: squid is not installed on this box; install it"):
        await box.provider().create(box.request())
    assert await box.provider().list_managed() == []


PUBLIC = InstanceRecord(
    name="proxy-a",
    managed=True,
    uid="uid",
    installation="ours",
    spec_hash="v1-a",
    created_at="2026-01-01T00:00:00+00:00",
    incarnation="0",
    address="203.0.113.7",
    port=3128,
    software="squid",
)


def test_the_configuration_for_a_public_address_is_accepted(tmp_path: Path, software: str) -> None:
    if software != "squid":
        assert json.loads(software_module.proxy_py_config(tmp_path, PUBLIC))["outgoingAddress"] == "203.0.113.7"
        return
    config = tmp_path / "squid.conf"
    config.write_text(software_module.squid_config(PUBLIC))
    squid = software_module.find_squid()
    assert squid is not None
    result = subprocess.run([squid, "-k", "parse", "-f", config], capture_output=True, text=True, timeout=60)
    assert (result.returncode, [line for line in result.stderr.splitlines() if "ERROR" in line]) == (0, [])


@pytest.mark.parametrize("target", ["localhost", "127.0.0.1", "169.254.169.254", "100.100.100.200", "0.0.0.0"])
def test_proxy_py_on_a_public_address_does_not_connect_to_the_machine_itself(target: str, origin: int) -> None:
    with pytest.raises(OSError, match="has no address that is allowed"):
        forward_proxy.connect_from("127.0.0.1", (target, origin))


def test_a_proxy_on_a_public_address_goes_out_from_it_and_keeps_the_machine_itself_out_of_reach() -> None:
    lines = software_module.squid_config(PUBLIC).splitlines()
    assert "tcp_outgoing_address 203.0.113.7" in lines
    assert lines.index("http_access deny machine_itself") < lines.index("http_access allow all")
