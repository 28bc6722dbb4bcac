"""The demo as a person runs it: a program that ends by itself, is stopped, is killed, or cannot go on."""

import contextlib
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

DEMO_SECONDS = 100.0
STOP_SECONDS = 40.0
POLL_SECONDS = 0.05


class Demo:
    """One run in a state folder."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.output_path = directory.with_name(f"{directory.name}-{time.monotonic_ns()}.out")
        with self.output_path.open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "app.dev.demo", "--state-dir", str(directory)],
                stdout=output,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )

    @property
    def output(self) -> str:
        return self.output_path.read_text()

    def wait(self, seconds: float = DEMO_SECONDS) -> int:
        return self.process.wait(seconds)

    def wait_for(self, text: str) -> None:
        deadline = time.monotonic() + DEMO_SECONDS
        while text not in self.output:
            assert self.process.poll() is None, f"ended before {text!r}:\n{self.output}"
            assert time.monotonic() < deadline, f"no {text!r}:\n{self.output}"
            time.sleep(POLL_SECONDS)


def processes_of(directory: Path) -> list[psutil.Process]:
    """Every process with the state folder in its command line: servers, proxies and the demo itself."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
            if any(str(directory) in argument for argument in process.cmdline()):
                found.append(process)
    return found


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Path]:
    directory = tmp_path / "demo"
    yield directory
    for process in processes_of(directory):
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()


def test_it_shows_the_main_job_and_leaves_nothing_running(directory: Path) -> None:
    demo = Demo(directory)

    assert demo.wait() == 0, demo.output

    shown = [
        "$ kubectl apply -f",
        "proxy.crawl.example.com/squid condition met",
        "proxy.crawl.example.com/proxy-py condition met",
        "proxy.crawl.example.com/external condition met",
        "-> 201",
        "by CONNECT through http://127.0.1.",
        "-> Hello from a site",
        '"result": "rate_limited"',
        "-> 409",
        '"inCooldown":1',
        "DELETE http",
        "[crawl.example.com/finalizer]",
        '"squid" deleted',
        "gone: pid",
        "nothing is left running",
    ]
    positions = [demo.output.find(text) for text in shown]
    missing = [text for text, position in zip(shown, positions, strict=True) if position < 0]
    assert not missing, demo.output
    assert positions.index(max(positions)) == len(positions) - 1
    assert processes_of(directory) == []


@pytest.mark.fault
@pytest.mark.parametrize("moment", ["starting etcd and the Kubernetes API server", "condition met"])
def test_ctrl_c_at_any_moment_leaves_nothing_running(moment: str, directory: Path) -> None:
    demo = Demo(directory)
    demo.wait_for(moment)

    demo.process.send_signal(signal.SIGINT)

    assert demo.wait(STOP_SECONDS) == 130, demo.output
    assert "Traceback" not in demo.output
    assert processes_of(directory) == []


@pytest.mark.fault
def test_after_a_kill_the_next_run_clears_up_and_succeeds(directory: Path) -> None:
    killed = Demo(directory)
    killed.wait_for("squid runs with pid")
    killed.process.kill()
    killed.wait()
    survivors = processes_of(directory / "proxies")
    assert survivors, "proxies outlive their worker, so there was nothing to clear up"

    after = Demo(directory)

    assert after.wait() == 0, after.output
    assert "that an earlier run of the demo left running" in after.output
    assert not any(process.is_running() for process in survivors)
    assert processes_of(directory) == []


@pytest.mark.fault
def test_a_failure_names_its_reason_and_the_logs_and_leaves_nothing_running(directory: Path) -> None:
    demo = Demo(directory)
    demo.wait_for("proxy.py of somebody else runs with pid")
    [external] = processes_of(directory / "external")
    external.kill()

    assert demo.wait() == 1, demo.output

    assert "the demo failed: the External proxy's process ended" in demo.output
    assert str(directory / "demo.log") in demo.output
    assert "Traceback" not in demo.output
    assert processes_of(directory) == []


def test_a_second_demo_in_the_same_folder_is_refused_with_one_line(directory: Path) -> None:
    first = Demo(directory)
    first.wait_for("==>")

    second = Demo(directory)

    assert second.wait() == 1
    [line] = second.output.splitlines()
    assert "another demo runs in" in line
    first.process.send_signal(signal.SIGTERM)
    assert first.wait(STOP_SECONDS) == 130, first.output
