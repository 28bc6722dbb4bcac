"""Whose instance it is, and which process."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest

from model.errors import NameTakenError, NotFoundError, PermanentError, TransientError
from model.instance import InstanceState
from model.proxy import Placement
from providers.local import process
from tests.providers.local.boxes import TestBox, gone, running

OTHER_BOX = "local/aaaaaaaaaaaaaaaa/proxy-a"


@pytest.mark.parametrize("foreign", [{"uid": "other"}, {"installation": "other"}])
async def test_an_instance_of_somebody_else_is_refused_and_left_alone(
    proxy_py_box: TestBox, foreign: dict[str, str]
) -> None:
    box, provider = proxy_py_box, proxy_py_box.provider()
    await running(provider, (await provider.create(box.request())).provider_id)
    before = box.record_file().read_bytes()
    with pytest.raises(NameTakenError, match=f"carries another {next(iter(foreign))}"):
        await provider.create(box.request(**foreign))
    assert box.record_file().read_bytes() == before
    assert len(box.processes()) == 1


async def test_an_instance_without_installation_mark_is_adopted_and_marked(proxy_py_box: TestBox) -> None:
    box, provider = proxy_py_box, proxy_py_box.provider()
    first = await provider.create(box.request())
    box.edit_record(installation="")
    assert (await provider.get(first.provider_id)).installation == ""
    adopted = await provider.create(box.request())
    assert (adopted.installation, adopted.incarnation) == ("ours", first.incarnation)
    assert box.record()["installation"] == "ours"


async def test_an_adopted_instance_tells_its_own_spec_hash(proxy_py_box: TestBox) -> None:
    box, provider = proxy_py_box, proxy_py_box.provider()
    await provider.create(box.request(spec_hash="v1-a"))
    assert (await provider.create(box.request(spec_hash="v1-b"))).spec_hash == "v1-a"
    assert len(box.processes()) == 1


async def test_an_id_of_another_box_is_never_not_found(proxy_py_box: TestBox) -> None:
    provider = proxy_py_box.provider()
    for call in (provider.get(OTHER_BOX), provider.delete(OTHER_BOX, "")):
        with pytest.raises(TransientError, match="belongs to box aaaaaaaaaaaaaaaa, serve it from a worker there"):
            await call


async def test_a_name_that_is_not_there_is_not_found(proxy_py_box: TestBox) -> None:
    box, provider = proxy_py_box, proxy_py_box.provider()
    provider_id = (await provider.create(box.request())).provider_id
    with pytest.raises(NotFoundError):
        await provider.get(provider_id.replace("proxy-a", "proxy-b"))


@pytest.mark.parametrize(
    "provider_id",
    [
        "",
        "local",
        "local//proxy-a",
        "gcp/aaaaaaaaaaaaaaaa/proxy-a",
        "local/aaaaaaaaaaaaaaa1/proxy-a",
        "local/aaaaaaaaaaaaaaaa/",
        "local/aaaaaaaaaaaaaaaa/../x",
        "local/aaaaaaaaaaaaaaaa/Proxy",
        "local/aaaaaaaaaaaaaaaa/proxy-a\n",
    ],
)
async def test_a_malformed_id_is_permanent(proxy_py_box: TestBox, provider_id: str) -> None:
    provider = proxy_py_box.provider()
    for call in (provider.get(provider_id), provider.delete(provider_id, "")):
        with pytest.raises(PermanentError, match=r"status\.providerID: must be local/"):
            await call


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"placement": Placement(region="eu")}, "spec.placement.region: a local provider has no placement"),
        ({"placement": Placement(zone="a")}, "spec.placement.zone: a local provider has no placement"),
        ({"placement": Placement(machine_type="big")}, "spec.placement.machineType: a local provider"),
        ({"placement": Placement(image="debian")}, "spec.placement.image: a local provider has no placement"),
        ({"cloud_init": "password: S3cr3t-xyz"}, "spec.cloudInit: a local provider has no machine"),
        ({"cloud_init": ""}, "spec.cloudInit: a local provider has no machine"),
        ({"port": 0}, "spec.port: must be 1 to 65535, not 0"),
        ({"name": "../x"}, "instance name: must be a DNS label"),
    ],
)
async def test_what_a_box_cannot_do_is_permanent_and_names_the_field(
    proxy_py_box: TestBox, changes: dict[str, Any], message: str
) -> None:
    box, provider = proxy_py_box, proxy_py_box.provider()
    with pytest.raises(PermanentError) as caught:
        await provider.create(box.request(**changes))
    assert str(caught.value).startswith(message)
    assert "S3cr3t-xyz" not in str(caught.value)
    assert await provider.list_managed() == []


async def test_the_box_id_is_made_once(proxy_py_box: TestBox) -> None:
    box = proxy_py_box
    first = await box.provider().create(box.request())
    second = await box.provider().create(box.request("proxy-b"))
    box_id = (box.state_dir / "box-id").read_text().strip()
    assert first.provider_id == f"local/{box_id}/proxy-a"
    assert second.provider_id == f"local/{box_id}/proxy-b"
    assert len(box_id) == 16


@pytest.fixture
def stranger() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as process:
        yield process
        process.kill()


async def test_a_reused_pid_is_neither_taken_for_the_instance_nor_killed(
    proxy_py_box: TestBox, stranger: subprocess.Popen[bytes]
) -> None:
    box, provider = proxy_py_box, proxy_py_box.provider()
    instance = await running(provider, (await provider.create(box.request())).provider_id)
    identity = box.record()["process"]
    os.kill(identity["pid"], signal.SIGKILL)
    box.edit_record(process={**identity, "pid": stranger.pid})
    assert (await provider.get(instance.provider_id)).state is InstanceState.STOPPED
    await provider.delete(instance.provider_id, instance.incarnation)
    assert await gone(provider, instance.provider_id) == 0
    assert stranger.poll() is None


async def test_a_record_of_an_earlier_boot_is_a_stopped_instance(proxy_py_box: TestBox) -> None:
    box, provider = proxy_py_box, proxy_py_box.provider()
    instance = await running(provider, (await provider.create(box.request())).provider_id)
    identity = box.record()["process"]
    box.edit_record(process={**identity, "boot_id": "00000000-0000-0000-0000-000000000000"})
    assert (await provider.get(instance.provider_id)).state is InstanceState.STOPPED
    box.edit_record(process=identity)
    assert (await provider.get(instance.provider_id)).state is InstanceState.RUNNING


def test_a_zombie_is_dead_and_reaped() -> None:
    pid = os.posix_spawn("/bin/true", ["true"], {})
    deadline = time.monotonic() + 10
    while process.identify(pid) is not None:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    with pytest.raises(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)


@pytest.mark.parametrize(
    "content",
    ["{", "[]", "{}", "\x00", '{"name": "proxy-a"}'],
)
async def test_a_damaged_record_is_named_and_no_list_is_vouched_for(proxy_py_box: TestBox, content: str) -> None:
    box, provider = proxy_py_box, proxy_py_box.provider()
    instance = await provider.create(box.request())
    await provider.create(box.request("proxy-b"))
    good = box.record_file().read_text()
    box.record_file().write_text(content)
    calls = (
        provider.list_managed(),
        provider.get(instance.provider_id),
        provider.find("proxy-a"),
        provider.delete(instance.provider_id, ""),
        provider.create(box.request()),
    )
    for call in calls:
        with pytest.raises(TransientError) as caught:
            await call
        assert str(caught.value).startswith(f"{box.record_file()}: damaged")
    box.record_file().write_text(good)
    assert len(await provider.list_managed()) == 2


async def test_a_record_under_another_name_is_damaged(proxy_py_box: TestBox) -> None:
    box, provider = proxy_py_box, proxy_py_box.provider()
    await provider.create(box.request())
    box.record_file("proxy-c").parent.mkdir()
    box.record_file("proxy-c").write_text(json.dumps(box.record()))
    with pytest.raises(TransientError, match="damaged"):
        await provider.list_managed()
    box.record_file("proxy-c").unlink()


async def test_what_is_not_managed_is_not_listed(proxy_py_box: TestBox) -> None:
    box, provider = proxy_py_box, proxy_py_box.provider()
    await provider.create(box.request())
    box.edit_record(managed=False)
    assert await provider.list_managed() == []


async def test_a_state_folder_that_cannot_be_used_is_transient(proxy_py_box: TestBox) -> None:
    box = proxy_py_box
    box.state_dir.write_text("a file")
    with pytest.raises(TransientError, match=str(box.state_dir)):
        await box.provider().list_managed()
    box.state_dir.unlink()
