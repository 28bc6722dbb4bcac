import os
import shutil
from pathlib import Path

import pytest

from app.dev import binaries, images, node_machine, node_network
from app.dev.commands import CommandFailedError
from tests.support.node import node_of


@pytest.fixture
def ready_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A machine with everything, whatever this one has."""
    (tmp_path / "cgroup.controllers").write_text("cpuset cpu io memory pids\n")
    (tmp_path / "bridge").touch()
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(node_machine, "_has_capabilities", lambda *_: True)
    monkeypatch.setattr(node_machine, "CONTROL_GROUPS", tmp_path)
    monkeypatch.setattr(node_machine, "CNI_PLUGINS", tmp_path)
    monkeypatch.setattr(shutil, "which", lambda name, **_: f"/bin/{name}")
    monkeypatch.setattr(binaries, "find", lambda name: Path(name))
    monkeypatch.setattr(node_network, "rules", lambda _: [])
    monkeypatch.setattr(images, "find", lambda: images.Images(squid=tmp_path, pause=tmp_path))
    return monkeypatch


def test_nothing_is_missed_on_a_machine_with_everything(ready_machine: pytest.MonkeyPatch) -> None:
    assert node_machine.why_not_ready() is None


def test_each_missing_thing_is_named(ready_machine: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def refuse(_bridge: str) -> list[str]:
        raise CommandFailedError("iptables ended with 3: not permitted")

    cases: list[tuple[object, str, object, str]] = [
        (os, "geteuid", lambda: 1000, "needs root"),
        (node_machine, "_has_capabilities", lambda *_: False, "NET_ADMIN"),
        (shutil, "which", lambda name, **_: None if name == "runc" else name, "needs runc: run `make node`"),
        (binaries, "find", lambda name: None if name == "kubelet" else Path(name), "needs kubelet, which `make node`"),
        (node_network, "rules", refuse, "not permitted"),
        (images, "find", lambda: None, "images"),
    ]
    for where, name, value, reason in cases:
        with ready_machine.context() as one:
            one.setattr(where, name, value)
            assert reason in (node_machine.why_not_ready() or "")
    (tmp_path / "cgroup.controllers").write_text("cpu pids\n")
    assert "control groups for memory" in (node_machine.why_not_ready() or "")


def test_a_test_without_a_node_is_skipped_and_fails_in_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match="needs root"):
        node_of({"unable": "a node needs root"})
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="needs root"):
        node_of({"unable": "a node needs root"})
