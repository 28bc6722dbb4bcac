"""Workers that die or work at the same time, and addresses that are not to be had."""

import asyncio
import signal
import socket
import sys

import pytest

from model.errors import QuotaExceededError
from model.instance import InstanceState
from tests.providers.local.boxes import REPOSITORY, TestBox, gone, running
from tests.providers.local.conftest import BoxFactory
from tests.providers.local.worker import STEPS


async def worker(box: TestBox, step: str, *names: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.providers.local.worker",
        str(box.state_dir),
        box.software,
        box.network,
        str(box.port),
        step,
        *names,
        cwd=REPOSITORY,
    )


async def ended(process: asyncio.subprocess.Process) -> int:
    async with asyncio.timeout(60):
        return await process.wait()


@pytest.mark.parametrize("step", [step for step in STEPS if step])
async def test_a_worker_killed_at_any_step_of_create_leaves_one_process_after_the_next(box: TestBox, step: str) -> None:
    assert await ended(await worker(box, step, "proxy-a")) == -signal.SIGKILL
    left_behind = box.processes()
    assert len(left_behind) == (1 if step.startswith("after") else 0)
    incarnation = box.record()["incarnation"] if box.record_file().exists() else None
    provider = box.provider()
    assert len(await provider.list_managed()) == (0 if incarnation is None else 1)
    created = await provider.create(box.request())
    assert incarnation in (None, created.incarnation)
    instance = await running(provider, created.provider_id)
    assert instance.ip == box.address(0)
    assert len(box.processes()) == 1
    assert left_behind in ([], box.processes())
    await provider.delete(instance.provider_id, instance.incarnation)
    await gone(provider, instance.provider_id)
    assert box.processes() == []


@pytest.mark.parametrize("step", ["before the start", "after the start"])
async def test_a_delete_after_an_interrupted_create_leaves_nothing(box: TestBox, step: str) -> None:
    assert await ended(await worker(box, step, "proxy-a")) == -signal.SIGKILL
    provider = box.provider()
    found = await provider.find("proxy-a")
    assert found is not None
    assert found.state is not InstanceState.STOPPED
    await provider.delete(found.provider_id, found.incarnation)
    await gone(provider, found.provider_id)
    assert box.processes() == []


async def test_an_instance_outlives_its_worker(box: TestBox) -> None:
    assert await ended(await worker(box, "", "proxy-a")) == 0
    provider = box.provider()
    (found,) = await provider.list_managed()
    await running(provider, found.provider_id)
    assert (await provider.create(box.request())).incarnation == found.incarnation
    assert len(box.processes()) == 1


async def test_workers_at_the_same_time_make_one_process_per_name_on_addresses_of_their_own(box: TestBox) -> None:
    shared = ["shared-1", "shared-2"]
    first = [*(f"first-{number}" for number in range(4)), *shared]
    second = [*shared, *(f"second-{number}" for number in range(4))]
    workers = [await worker(box, "", *first), await worker(box, "", *second)]
    assert [await ended(one) for one in workers] == [0, 0]
    names = sorted({*first, *second})
    provider = box.provider()
    instances = [await running(provider, one.provider_id) for one in await provider.list_managed()]
    assert [instance.name for instance in instances] == names
    assert {instance.ip for instance in instances} == {box.address(number) for number in range(len(names))}
    for name in names:
        assert len(box.processes(name)) == 1


async def test_creates_at_the_same_time_in_one_worker_get_addresses_of_their_own(proxy_py_box: TestBox) -> None:
    box, provider = proxy_py_box, proxy_py_box.provider()
    names = [f"proxy-{number}" for number in range(10)]
    await asyncio.gather(*(provider.create(box.request(name)) for name in [*names, *names]))
    assert len({box.record(name)["address"] for name in names}) == 10
    assert len(box.processes()) == 10


async def test_an_address_whose_port_a_stranger_holds_is_skipped(box: TestBox) -> None:
    provider = box.provider()
    with socket.create_server((box.address(0), box.port)):
        instance = await running(provider, (await provider.create(box.request())).provider_id)
        assert instance.ip == box.address(1)
    assert (await running(provider, (await provider.create(box.request("proxy-b"))).provider_id)).ip == box.address(0)


async def test_no_address_left_is_a_quota_with_the_counts(make_box: BoxFactory) -> None:
    box = make_box("proxy.py", prefix_length=29)
    provider = box.provider()
    for number in range(4):
        await provider.create(box.request(f"proxy-{number}"))
    with socket.create_server((box.address(4), box.port)), socket.create_server((box.address(5), box.port)):
        with pytest.raises(QuotaExceededError) as caught:
            await provider.create(box.request("proxy-x"))
        assert str(caught.value) == (
            f"4 of 6 addresses of provider box1 are in use, 2 held by other programs on port {box.port}; "
            "add addresses or delete proxies"
        )
    assert await provider.find("proxy-x") is None
    assert (await provider.create(box.request("proxy-x"))).name == "proxy-x"


async def test_the_address_deleted_longest_ago_changes_its_owner_when_no_other_is_left(make_box: BoxFactory) -> None:
    box = make_box("proxy.py", prefix_length=30)
    provider = box.provider()
    for name in ("proxy-b", "proxy-a"):
        instance = await provider.create(box.request(name))
        await provider.delete(instance.provider_id, instance.incarnation)
        await gone(provider, instance.provider_id)
    await provider.create(box.request("proxy-c"))
    assert box.record("proxy-c")["address"] == box.address(0)
    await provider.create(box.request("proxy-a"))
    assert box.record("proxy-a")["address"] == box.address(1)
    with pytest.raises(QuotaExceededError, match="2 of 2 addresses of provider box1 are in use, 0 held"):
        await provider.create(box.request("proxy-b"))


async def test_an_address_outside_the_machine_is_skipped_and_counted(make_box: BoxFactory) -> None:
    made = make_box("proxy.py")
    box = TestBox(state_dir=made.state_dir, software="proxy.py", network="203.0.113.0/30", port=made.port)
    with pytest.raises(QuotaExceededError, match=r"0 of 2 addresses .*, 0 held by other programs .*, 2 not on this"):
        await box.provider().create(box.request())
