"""The command line as a user meets it: real processes, their exit codes and the lines they print."""

import asyncio
import contextlib
import json
import os
import re
import signal
import sys
import time
import uuid
from collections.abc import AsyncIterator, Callable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from app.cli import StopEvent, cli
from app.flags import PREFIX
from app.options import api_settings, dev_settings, watcher_settings, worker_settings
from model.errors import ConfigurationError
from tests.cluster.scripted_api import write_kubeconfig
from tests.support.listening import listen

REPOSITORY = Path(__file__).resolve().parents[2]
COMMANDS = ("worker", "watcher", "api", "dev")
LIMIT_SECONDS = 10.0
START_SECONDS = 60.0


class Process:
    """One ``egress-proxies`` process."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.lines: list[str] = []
        self._reading = asyncio.create_task(self._read())

    async def _read(self) -> None:
        assert self.process.stderr is not None
        async for line in self.process.stderr:
            self.lines.append(line.decode().rstrip("\n"))

    async def until_line(self, words: str) -> None:
        deadline = time.monotonic() + START_SECONDS
        while not any(words in line for line in self.lines):
            assert time.monotonic() < deadline, f"no line with {words!r}: {self.lines}"
            assert self.process.returncode is None, f"ended with {self.process.returncode}: {self.lines}"
            await asyncio.sleep(0.02)

    async def exit_code(self, seconds: float = START_SECONDS) -> int:
        async with asyncio.timeout(seconds):
            code = await self.process.wait()
        await self._reading
        return code

    async def terminate(self) -> tuple[int, float]:
        """Send SIGTERM; return the exit code and the seconds it took."""
        self.process.send_signal(signal.SIGTERM)
        began = time.monotonic()
        code = await self.exit_code()
        return code, time.monotonic() - began


@contextlib.asynccontextmanager
async def running(*arguments: str, environment: Mapping[str, str] | None = None) -> AsyncIterator[Process]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith((PREFIX, "TEMPORAL_", "KUBE"))}
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "app.cli",
        *arguments,
        cwd=REPOSITORY,
        env=kept | dict(environment or {}),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    watched = Process(process)
    try:
        yield watched
    finally:
        if process.returncode is None:
            process.kill()
            await watched.exit_code()


def options_of(command: str) -> list[click.Option]:
    return [option for option in cli.commands[command].params if isinstance(option, click.Option)]


@pytest.mark.parametrize("command", COMMANDS)
def test_help_tells_every_flag_with_its_environment_variable(command: str) -> None:
    result = CliRunner().invoke(cli, [command, "--help"], terminal_width=110)
    assert result.exit_code == 0
    text = " ".join(result.output.split())
    for option in options_of(command):
        if option.name == "help":
            continue
        flag = option.opts[0]
        assert flag in text
        assert option.envvar == PREFIX + flag.removeprefix("--").replace("-", "_").upper()
        assert str(option.envvar) in text.replace(" ", "")
        assert option.help, f"{flag} is not explained"
    assert "TEMPORAL_ADDRESS" in text


@pytest.mark.parametrize("arguments", [[], ["--help"], ["-h"]])
def test_the_first_help_names_every_command(arguments: list[str]) -> None:
    output = CliRunner().invoke(cli, arguments).output
    for command in COMMANDS:
        assert re.search(rf"^  {command} +\S", output, re.MULTILINE), command


def test_the_version_is_one_line() -> None:
    result = CliRunner().invoke(cli, ["--version"])
    assert result.exit_code == 0
    assert re.fullmatch(r"\d+\.\d+\.\d+\n", result.output)


SAMPLES = {
    "--kubeconfig": "/dev/null",
    "--proxy-namespace": "ns",
    "--installation": "inst",
    "--metrics-bind-address": ":1",
    "--health-probe-bind-address": ":2",
    "--log-format": "json",
    "--providers-config": "providers.yaml",
    "--task-queue": "q1 q2",
    "--drift-check-interval": "90s",
    "--gc-interval": "7m",
    "--gc-min-age": "8m",
    "--gc-max-deletes": "9",
    "--gc-dry-run": "true",
    "--gc-collect-unmarked": "true",
    "--gc-allow-namespaced": "true",
    "--provider-check-interval": "50s",
    "--provider-check-timeout": "5s",
    "--max-proxies-per-worker": "7",
    "--no-target-check": "true",
    "--deployment-name": "egress",
    "--build-id": "v1",
    "--relist-interval": "1h30m",
    "--discovery-addr": ":3",
    "--lease-cooldown": "1m",
    "--max-lease-ttl": "2m",
    "--allow-unauthenticated": "1",
    "--state-dir": "state",
    "--controller-manager": "false",
}
SETTINGS: dict[str, Callable[[Mapping[str, Any]], Any]] = {
    "worker": worker_settings,
    "watcher": watcher_settings,
    "api": lambda options: api_settings(options, {b"DISCOVERY_TOKEN": b"t"}),
    "dev": lambda options: dev_settings(options, {b"DISCOVERY_TOKEN": b"t"}),
}


@pytest.mark.parametrize("command", COMMANDS)
def test_every_flag_reaches_the_settings_from_its_environment_variable(
    command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    flags = [option.opts[0] for option in options_of(command) if option.name != "help"]
    required = ["--providers-config", "other.yaml"] if command == "worker" else []
    context = cli.commands[command].make_context(command, list(required))
    defaults = SETTINGS[command](context.params)
    for flag in flags:
        with monkeypatch.context() as environment:
            environment.setenv(PREFIX + flag.removeprefix("--").replace("-", "_").upper(), SAMPLES[flag])
            arguments = [] if flag == "--providers-config" else list(required)
            params = cli.commands[command].make_context(command, arguments).params
        if flag == "--log-format":
            assert params["log_format"] == "json"
            continue
        assert SETTINGS[command](params) != defaults, f"{flag} changes nothing"


@pytest.mark.parametrize(
    ("interval", "timeout", "words"),
    [
        ("9s", "0", "--provider-check-interval: 9s is too short; give at least 10s, or 0 for no checks"),
        ("30s", "31s", "--provider-check-timeout: 31s is longer than --provider-check-interval"),
    ],
)
def test_provider_checks_that_cannot_be_run_are_refused(interval: str, timeout: str, words: str) -> None:
    arguments = ["--providers-config", "x", "--provider-check-interval", interval, "--provider-check-timeout", timeout]
    with pytest.raises(ConfigurationError, match=words):
        worker_settings(cli.commands["worker"].make_context("worker", arguments).params)


@pytest.mark.parametrize(
    ("interval", "timeout", "seconds"), [("1m", "0", 15), ("10s", "0", 10), ("1m", "40s", 40), ("0", "40s", 40)]
)
def test_the_time_for_a_provider_check(interval: str, timeout: str, seconds: int) -> None:
    arguments = ["--providers-config", "x", "--provider-check-interval", interval, "--provider-check-timeout", timeout]
    settings = worker_settings(cli.commands["worker"].make_context("worker", arguments).params)
    assert settings.provider_check.timeout_in_force == timedelta(seconds=seconds)


def test_a_flag_beats_its_environment_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EGRESS_PROXIES_RELIST_INTERVAL", "5m")
    params = cli.commands["watcher"].make_context("watcher", ["--relist-interval", "90s"]).params
    assert params["relist_interval"] == timedelta(seconds=90)


def test_task_queues_are_given_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = ["--providers-config", "x", "--task-queue", "a", "--task-queue", "b"]
    assert cli.commands["worker"].make_context("worker", list(arguments)).params["task_queues"] == ("a", "b")
    monkeypatch.setenv("EGRESS_PROXIES_TASK_QUEUE", "c d")
    assert cli.commands["worker"].make_context("worker", arguments[:2]).params["task_queues"] == ("c", "d")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["watcher", "--relist-interval", "10"], '"10" is not a duration; write it like 90s, 15m or 1h30m'),
        (["watcher", "--relist-interval", "0"], "0 is too short; the least is 1s"),
        (["worker", "--providers-config", "x", "--drift-check-interval", "10ms"], "10ms is too short"),
        (["api", "--max-lease-ttl", "0s"], "0s is too short"),
        (["worker", "--providers-config", "x", "--gc-interval", "10ms"], "10ms is too short"),
        (["worker", "--providers-config", "x", "--gc-max-deletes", "0"], "0 is not in the range"),
        (["worker", "--providers-config", "x", "--gc-max-deletes", "101"], "101 is not in the range"),
        (["worker"], "Missing option '--providers-config'"),
        (["worker", "--providers-config", "x", "--max-proxies-per-worker", "0"], "0 is not in the range"),
        (["watcher", "--log-format", "xml"], "'xml' is not one of 'json', 'text'"),
    ],
)
def test_a_bad_value_is_told_with_its_flag(arguments: list[str], words: str) -> None:
    result = CliRunner().invoke(cli, arguments)
    assert result.exit_code == 2
    assert words in " ".join(result.output.split())


async def test_a_missing_providers_file_is_one_line(tmp_path: Path, kubeconfig: Path, temporal_address: str) -> None:
    missing = tmp_path / "providers.yaml"
    arguments = ("worker", "--providers-config", str(missing), "--kubeconfig", str(kubeconfig))
    async with running(*arguments, environment={"TEMPORAL_ADDRESS": temporal_address}) as process:
        assert await process.exit_code() == 2
    assert len(process.lines) == 1
    assert process.lines[0].startswith("egress-proxies: ")
    assert str(missing) in process.lines[0]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("watcher", "--installation", "Bad_Name"), '--installation: "Bad_Name" is not 1-63'),
        (("watcher", "--installation", "x", "--kubeconfig", "/nowhere/config"), "/nowhere/config"),
        (("api", "--discovery-addr", ":0"), "--allow-unauthenticated"),
    ],
)
async def test_what_cannot_be_used_is_one_line_and_exit_code_2(
    kubeconfig: Path, arguments: tuple[str, ...], words: str
) -> None:
    if "--kubeconfig" not in arguments:
        arguments = (*arguments, "--kubeconfig", str(kubeconfig))
    async with running(*arguments) as process:
        assert await process.exit_code() == 2
    assert len(process.lines) == 1
    assert words in process.lines[0]


async def test_another_installation_of_the_temporal_namespace_is_named(
    kubeconfig: Path, temporal_address: str, temporal_namespace: str
) -> None:
    environment = {"TEMPORAL_ADDRESS": temporal_address, "TEMPORAL_NAMESPACE": temporal_namespace}
    common = ("watcher", "--kubeconfig", str(kubeconfig), "--health-probe-bind-address", "0")
    namespace = f"--proxy-namespace=none-{uuid.uuid4().hex[:8]}"
    async with running(*common, namespace, "--installation", "first", environment=environment) as first:
        await first.until_line("installation first")
        async with running(*common, namespace, "--installation", "second", environment=environment) as second:
            assert await second.exit_code() == 2
        assert len(second.lines) == 1
        assert "first" in second.lines[0]
        code, seconds = await first.terminate()
        assert code == 0
        assert seconds < LIMIT_SECONDS
    assert all(isinstance(json.loads(line), dict) for line in first.lines)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("command", ["worker", "watcher", "api"])
async def test_a_signal_ends_a_process_that_waits_for_temporal(
    tmp_path: Path, kubeconfig: Path, command: str, number: signal.Signals
) -> None:
    with listen("127.0.0.1") as stranger:
        port = stranger.getsockname()[1]
    providers = tmp_path / "providers.yaml"
    providers.write_text("providers: []\n")
    more = {"worker": ["--providers-config", str(providers)], "api": ["--discovery-addr", "127.0.0.1:0"]}
    arguments = [command, "--kubeconfig", str(kubeconfig), "--installation", "x", "--health-probe-bind-address", "0"]
    environment = {"TEMPORAL_ADDRESS": f"127.0.0.1:{port}"}
    async with running(*arguments, *more.get(command, []), environment=environment) as process:
        await process.until_line("does not answer, trying again")
        process.process.send_signal(number)
        assert await process.exit_code(LIMIT_SECONDS) == 0
    lines = [json.loads(line) for line in process.lines]
    assert f"Temporal at 127.0.0.1:{port} does not answer" in lines[0]["msg"]


async def test_sigterm_ends_a_process_whose_temporal_accepts_and_says_nothing(kubeconfig: Path) -> None:
    with listen("127.0.0.1") as stranger:
        environment = {"TEMPORAL_ADDRESS": f"127.0.0.1:{stranger.getsockname()[1]}"}
        arguments = ("watcher", "--kubeconfig", str(kubeconfig), "--installation", "x")
        async with running(*arguments, environment=environment) as process:
            accepted, _ = await asyncio.to_thread(stranger.accept)
            with accepted:
                code, seconds = await process.terminate()
    assert code == 0
    assert seconds < LIMIT_SECONDS


async def test_sigterm_while_the_api_server_says_nothing(tmp_path: Path) -> None:
    with listen("127.0.0.1") as stranger:
        config = tmp_path / "kubeconfig"
        write_kubeconfig(config, f"http://127.0.0.1:{stranger.getsockname()[1]}")
        async with running("watcher", "--kubeconfig", str(config)) as process:
            accepted, _ = await asyncio.to_thread(stranger.accept)
            with accepted:
                code, seconds = await process.terminate()
    assert code == 0
    assert seconds < LIMIT_SECONDS


@pytest.mark.parametrize("delay", [0.0, 0.05, 0.2, 0.5])
async def test_sigterm_at_import_time_ends_at_once(kubeconfig: Path, delay: float) -> None:
    async with running("watcher", "--kubeconfig", str(kubeconfig), "--installation", "x") as process:
        await asyncio.sleep(delay)
        code, seconds = await process.terminate()
    # Before the first line of our code runs, the signal itself ends a process that is not PID 1.
    assert code in (0, -signal.SIGTERM)
    assert seconds < LIMIT_SECONDS
    assert not any("Traceback" in line for line in process.lines)


async def test_a_stop_is_heeded_only_once_somebody_waits_for_it() -> None:
    stop = StopEvent()
    heeded = [stop.is_heeded]
    waiting = asyncio.create_task(stop.wait())
    await asyncio.sleep(0)
    heeded.append(stop.is_heeded)
    stop.set()
    await waiting
    assert heeded == [False, True]
