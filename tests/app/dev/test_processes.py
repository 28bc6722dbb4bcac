import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from app.dev.processes import ChildProcess, ProcessFailedError

REPOSITORY = Path(__file__).resolve().parents[3]
FOREVER = "import time; print('up', flush=True); time.sleep(600)"
STUBBORN = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {FOREVER}"


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


async def start(log: Path, code: str, deadline: float = 20.0) -> ChildProcess:
    async def up() -> bool:
        return "up" in await asyncio.to_thread(log.read_text)

    return await ChildProcess.start("helper", python(code), log, ready=up, deadline=deadline)


async def gone(pid: int, seconds: float = 20.0) -> None:
    async with asyncio.timeout(seconds):
        while psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:  # noqa: ASYNC110
            await asyncio.sleep(0.05)


async def test_start_waits_for_readiness_and_stop_ends_it(tmp_path: Path) -> None:
    child = await start(tmp_path / "log", FOREVER)
    assert psutil.pid_exists(child.pid)
    assert await child.stop() == -signal.SIGTERM
    assert not child.running
    assert not psutil.pid_exists(child.pid)


async def test_a_child_that_ends_early_is_reported_with_its_code_and_the_end_of_its_log(tmp_path: Path) -> None:
    with pytest.raises(ProcessFailedError) as failure:
        await start(tmp_path / "log", "import sys; [print('line', n) for n in range(100)]; sys.exit(7)")
    message = str(failure.value)
    assert "helper ended with code 7 before it was ready" in message
    assert str(tmp_path / "log") in message
    assert message.endswith("line 99")
    assert "line 80\n" in message
    assert "line 79\n" not in message


async def test_the_log_of_an_earlier_run_is_kept_and_not_blamed_on_this_one(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("of yore\n")
    with pytest.raises(ProcessFailedError) as failure:
        await start(log, "print('now'); raise SystemExit(1)")
    assert "now" in str(failure.value)
    assert "of yore" not in str(failure.value)
    assert log.read_text() == "of yore\nnow\n"


async def test_a_child_that_is_not_ready_in_time_is_ended(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    code = f"import os, pathlib, time; pathlib.Path({str(pid_file)!r}).write_text(str(os.getpid())); time.sleep(600)"
    with pytest.raises(ProcessFailedError, match="helper was not ready within 1 s"):
        await start(tmp_path / "log", code, deadline=1.0)
    assert not psutil.pid_exists(int(pid_file.read_text()))


async def test_a_readiness_check_that_hangs_does_not_outlast_the_deadline(tmp_path: Path) -> None:
    async def hang() -> bool:
        await asyncio.sleep(600)
        return True

    started = time.monotonic()
    with pytest.raises(ProcessFailedError, match="TimeoutError"):
        await ChildProcess.start("helper", python(FOREVER), tmp_path / "log", ready=hang, deadline=0.5)
    assert time.monotonic() - started < 10


async def test_the_reason_why_it_is_not_ready_is_told(tmp_path: Path) -> None:
    async def refuse() -> bool:
        raise ConnectionRefusedError("nobody listens")

    with pytest.raises(ProcessFailedError, match="ConnectionRefusedError: nobody listens"):
        await ChildProcess.start("helper", python(FOREVER), tmp_path / "log", ready=refuse, deadline=0.3)


async def test_a_program_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ProcessFailedError, match=r"helper cannot be started from .*/missing"):
        await ChildProcess.start("helper", [tmp_path / "missing"], tmp_path / "log")


async def test_a_child_that_ignores_sigterm_is_killed_after_the_grace_time(tmp_path: Path) -> None:
    child = await start(tmp_path / "log", STUBBORN)
    assert await child.stop(grace=0.3) == -signal.SIGKILL


async def test_kill_needs_no_grace(tmp_path: Path) -> None:
    child = await start(tmp_path / "log", STUBBORN)
    assert await child.kill() == -signal.SIGKILL
    assert await child.stop() == -signal.SIGKILL


async def test_cancelling_a_start_ends_the_child(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    code = f"import os, pathlib, time; pathlib.Path({str(pid_file)!r}).write_text(str(os.getpid())); time.sleep(600)"
    starting = asyncio.create_task(start(tmp_path / "log", code))
    async with asyncio.timeout(20):
        while not (pid_file.exists() and pid_file.read_text()):  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert not psutil.pid_exists(int(pid_file.read_text()))


async def test_cancelling_a_start_at_once_leaves_no_child(tmp_path: Path) -> None:
    mark = str(tmp_path / "mark")
    starting = asyncio.create_task(ChildProcess.start("helper", [*python(FOREVER), mark], tmp_path / "log"))
    await asyncio.sleep(0)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    running = [process.info["cmdline"] or [] for process in psutil.process_iter(["cmdline"])]
    assert not any(mark in words for words in running)


async def test_a_child_does_not_get_the_terminals_ctrl_c(tmp_path: Path) -> None:
    child = await start(tmp_path / "log", FOREVER)
    assert os.getsid(child.pid) != os.getsid(0)
    await child.stop()


async def test_a_child_outlives_the_event_loop_that_started_it(tmp_path: Path) -> None:
    child = await asyncio.to_thread(lambda: asyncio.run(start(tmp_path / "log", FOREVER)))
    assert child.running
    await child.stop()


PARENT = """
import asyncio, sys
from pathlib import Path
from app.dev.processes import ChildProcess

async def main():
    for number, code in enumerate(sys.argv[3:]):
        child = await ChildProcess.start("helper", [sys.executable, "-c", code], Path(sys.argv[1]) / str(number))
        print(child.pid, flush=True)
    print("started", flush=True)
    if sys.argv[2] == "stay":
        await asyncio.sleep(600)

asyncio.run(main())
"""


def run_parent(directory: Path, then: str, *codes: str) -> tuple["subprocess.Popen[str]", list[int]]:
    parent = subprocess.Popen(
        [*python(PARENT), str(directory), then, *codes],
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert parent.stdout is not None
    lines = list(iter(parent.stdout.readline, "started\n"))
    parent.stdout.close()
    return parent, [int(line) for line in lines]


@pytest.mark.fault
async def test_children_of_a_parent_that_was_killed_end_too(tmp_path: Path) -> None:
    parent, pids = await asyncio.to_thread(run_parent, tmp_path, "stay", FOREVER, STUBBORN)
    assert all(psutil.pid_exists(pid) for pid in pids)
    parent.kill()
    await asyncio.to_thread(parent.wait)
    for pid in pids:
        await gone(pid, 30)


async def test_children_that_a_parent_forgot_to_stop_end_with_it(tmp_path: Path) -> None:
    parent, pids = await asyncio.to_thread(run_parent, tmp_path, "leave", FOREVER)
    assert await asyncio.to_thread(parent.wait, 60) == 0
    for pid in pids:
        await gone(pid)
