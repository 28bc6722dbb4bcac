import os
from pathlib import Path

import pytest

from app.dev import squid
from app.dev.debian import install_command
from app.dev.squid import ensure_squid, install_squid

APT_GET = """#!/bin/sh
echo "$@" >> "{calls}"
test -x "{policy}" && "{policy}"
echo "policy answered $?" >> "{calls}"
echo "last line of $1"
{end}
"""


class Machine:
    """A machine whose apt-get writes down how it was called and what the policy said meanwhile."""

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.policy = directory / "policy-rc.d"
        self.lines: list[str] = []
        self._calls = directory / "calls"
        self._program = directory / "bin" / "apt-get"
        self._program.parent.mkdir()
        monkeypatch.setenv("PATH", f"{self._program.parent}:{os.environ['PATH']}")
        self.apt_get_ends_with("exit 0")

    def apt_get_ends_with(self, end: str) -> None:
        self._program.write_text(APT_GET.format(calls=self._calls, policy=self.policy, end=end))
        self._program.chmod(0o755)

    @property
    def calls(self) -> list[str]:
        return self._calls.read_text().splitlines() if self._calls.exists() else []

    async def install(self) -> bool:
        return await install_squid(self.lines.append, self.policy)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(tmp_path, monkeypatch)


async def test_the_package_is_installed_while_a_policy_forbids_to_start_services(machine: Machine) -> None:
    assert await machine.install()

    update, first_policy, install, second_policy = machine.calls
    assert "update" in update.split()
    assert "install" in install.split()
    assert "squid" in install.split()
    assert first_policy == second_policy == "policy answered 101"


async def test_the_policy_is_gone_afterwards(machine: Machine) -> None:
    assert await machine.install()

    assert not machine.policy.exists()


async def test_the_policy_is_gone_after_a_failure_too_and_the_reason_is_said(machine: Machine) -> None:
    machine.apt_get_ends_with("exit 100")

    assert not await machine.install()

    assert not machine.policy.exists()
    assert "last line of --quiet" in machine.lines[-1]


async def test_a_policy_of_the_machines_owner_is_left_as_it_is(machine: Machine) -> None:
    machine.policy.write_text("#!/bin/sh\nexit 104\n")
    machine.policy.chmod(0o755)

    assert await machine.install()

    assert machine.policy.read_text() == "#!/bin/sh\nexit 104\n"
    assert machine.calls[-1] == "policy answered 104"


async def test_a_policy_that_a_killed_run_left_is_removed(machine: Machine) -> None:
    machine.apt_get_ends_with(f'cp "{machine.policy}" "{machine.policy}.kept"; exit 0')
    assert await machine.install()
    machine.policy.with_suffix(".d.kept").rename(machine.policy)

    assert await machine.install()

    assert not machine.policy.exists()


async def test_an_index_that_cannot_be_brought_up_to_date_does_not_stop_the_installation(machine: Machine) -> None:
    machine.apt_get_ends_with('case "$*" in *update*) exit 100;; esac')

    assert await machine.install()


async def test_a_machine_where_the_policy_cannot_be_written_goes_without_squid(machine: Machine) -> None:
    machine.policy = machine.policy / "no" / "such" / "folder"

    assert not await machine.install()

    assert "no/such/folder" in machine.lines[-1]
    assert machine.calls == []


async def test_who_is_not_root_is_told_the_command(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(squid, "find_squid", lambda: None)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)

    assert not await ensure_squid(machine.lines.append)

    assert install_command("squid") in machine.lines[-1]
    assert machine.calls == []


@pytest.mark.parametrize(("ci", "code"), [("true", 1), ("", 0)])
def test_a_machine_without_squid_is_a_failure_in_ci_alone(
    ci: str, code: int, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.apt_get_ends_with("exit 100")
    monkeypatch.setenv("CI", ci)
    monkeypatch.setattr(squid, "find_squid", lambda: None)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)

    assert squid.main() == code
