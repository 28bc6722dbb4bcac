"""``make demo-kubernetes`` on a node of its own."""

import contextlib
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from app.dev.node_machine import why_not_ready
from tests.support.node import node_of

DEMO_SECONDS = 300.0
STOP_SECONDS = 120.0
POLL_SECONDS = 0.05


class Demo:
    """One run in a state folder."""

    def __init__(self, directory: Path, output: Path) -> None:
        self._output = output
        with output.open("wb") as file:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "app.dev.demo_kubernetes", "--state-dir", str(directory)],
                stdout=file,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )

    @property
    def output(self) -> str:
        return self._output.read_text()

    def wait_for(self, text: str) -> None:
        deadline = time.monotonic() + DEMO_SECONDS
        while text not in self.output:
            assert self.process.poll() is None, f"ended before {text!r}:\n{self.output}"
            assert time.monotonic() < deadline, f"no {text!r}:\n{self.output}"
            time.sleep(POLL_SECONDS)


def mounts(directory: Path) -> list[str]:
    """What is mounted below the folder: volumes of Pods."""
    return [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if f" {directory}/" in line]


def processes(directory: Path) -> list[psutil.Process]:
    """Every process with the folder in its command line."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
            if any(str(directory) in argument for argument in process.cmdline()):
                found.append(process)
    return found


Start = Callable[[], Demo]


@pytest.fixture
def directory() -> Iterator[Path]:
    """A state folder; pytest's own has too long a path for the node's sockets."""
    reason = why_not_ready()
    if reason is not None:
        node_of({"unable": reason})
    directory = Path(tempfile.mkdtemp(prefix="egress-demo-"))
    yield directory
    # Where mounts are left, the next node on this machine needs the folder to remove them.
    if not mounts(directory):
        shutil.rmtree(directory)


@pytest.fixture
def start(directory: Path, tmp_path: Path) -> Iterator[Start]:
    """Starts runs of the demo, one after the other."""
    demos: list[Demo] = []

    def start() -> Demo:
        demos.append(Demo(directory, tmp_path / f"{len(demos)}.out"))
        return demos[-1]

    yield start
    for demo in demos:
        if demo.process.poll() is None:
            demo.process.terminate()
            demo.process.wait(STOP_SECONDS)


@pytest.mark.fault
@pytest.mark.timeout(3 * DEMO_SECONDS)
def test_after_a_kill_the_next_run_clears_up_and_shows_everything(directory: Path, start: Start) -> None:
    killed = start()
    killed.wait_for("kubernetes-demo-1: reported ok")
    killed.process.kill()
    killed.process.wait()
    assert mounts(directory), "Pods outlive what started them, so there was nothing to clear up"

    after = start()

    assert after.process.wait(DEMO_SECONDS) == 0, after.output
    assert "everything was as said" in after.output
    assert "nothing is left running" in after.output
    assert mounts(directory) == []
    assert processes(directory) == []
