"""What the check says of a box that is not fit to serve."""

import errno
from pathlib import Path

import pytest

from model.errors import TransientError
from model.provider_health import FORBIDDEN, REACHABLE, UNREACHABLE, TargetHealth
from providers.local import checking
from providers.local import software as software_module
from tests.providers.local.boxes import TestBox
from tests.providers.local.conftest import BoxFactory


async def check(box: TestBox) -> TargetHealth:
    (target,) = await box.provider().check()
    assert (target.name, target.address) == ("box", str(box.state_dir))
    return target


async def test_a_sound_box_tells_its_software_and_numbers(box: TestBox) -> None:
    await box.provider().create(box.request())
    target = await check(box)
    assert (target.ready, target.reason, target.message) == (True, REACHABLE, "")
    assert target.details == {"software": box.software, "addresses": "14", "instances": "1"}
    assert [path.name for path in box.state_dir.glob(".*")] == []


async def test_a_state_folder_that_is_no_folder_is_unreachable(proxy_py_box: TestBox) -> None:
    proxy_py_box.state_dir.write_text("a file")
    target = await check(proxy_py_box)
    assert (target.ready, target.reason) == (False, UNREACHABLE)
    assert str(proxy_py_box.state_dir) in target.message


async def test_a_state_folder_that_may_not_be_written_is_forbidden(
    proxy_py_box: TestBox, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path, _text: str) -> int:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(Path, "write_text", refuse)
    target = await check(proxy_py_box)
    assert (target.ready, target.reason) == (False, FORBIDDEN)
    assert target.message.endswith("Permission denied")


async def test_missing_software_is_named(make_box: BoxFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(software_module, "find_squid", lambda: None)
    target = await check(make_box("squid"))
    assert (target.ready, target.reason) == (False, checking.SOFTWARE_MISSING)
    assert "squid is not installed" in target.message


async def test_addresses_of_another_machine_are_named(proxy_py_box: TestBox) -> None:
    elsewhere = TestBox(
        state_dir=proxy_py_box.state_dir, software="proxy.py", network="203.0.113.0/30", port=proxy_py_box.port
    )
    target = await check(elsewhere)
    assert (target.ready, target.reason) == (False, checking.ADDRESSES_MISSING)
    assert target.message == "local.addresses: none of 2 is an address of this machine"


async def test_a_state_folder_that_was_emptied_under_a_worker_proves_nothing_gone(proxy_py_box: TestBox) -> None:
    box, provider = proxy_py_box, proxy_py_box.provider()
    instance = await provider.create(box.request())
    away = box.state_dir.with_suffix(".away")
    box.state_dir.rename(away)
    box.state_dir.mkdir()
    try:
        calls = (
            provider.get(instance.provider_id),
            provider.find(instance.name),
            provider.list_managed(),
            provider.delete(instance.provider_id, ""),
            provider.create(box.request()),
        )
        for call in calls:
            with pytest.raises(TransientError, match="state was taken away or changed"):
                await call
        assert (await provider.check())[0].reason == UNREACHABLE
    finally:
        box.state_dir.rmdir()
        away.rename(box.state_dir)
    assert (await provider.get(instance.provider_id)).incarnation == instance.incarnation


async def test_what_a_killed_writer_left_is_removed_at_the_next_start(proxy_py_box: TestBox) -> None:
    box = proxy_py_box
    await box.provider().create(box.request())
    abandoned = box.state_dir / ".addresses.json.0123456789abcdef"
    kept = box.state_dir / ".notes"
    for path in (abandoned, kept):
        path.write_text("half")
    assert len(await box.provider().list_managed()) == 1
    assert not abandoned.exists()
    assert kept.exists()
