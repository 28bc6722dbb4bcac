"""Builds etcd and the Kubernetes control plane from Go modules, once per machine."""

import asyncio
import contextlib
import fcntl
import os
import shutil
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path
from typing import TypeVar

from model.errors import ConfigurationError

Report = Callable[[str], None]
_T = TypeVar("_T")

MODULE_DIRECTORY = Path(__file__).resolve().parents[2] / "deploy" / "envtest"
BUILD_SECONDS = 3600.0
REPORT_SECONDS = 10.0
_LOCK_POLL_SECONDS = 0.5
_LOG_TAIL_BYTES = 4096
_PACKAGES = {
    "etcd": "go.etcd.io/etcd/server/v3",
    # Only the standard library: a file beside the Dockerfile that packs it.
    "pause": "../images/pause/main.go",
}
_VERSION_PACKAGE = "k8s.io/component-base/version"


def say_nothing(_line: str) -> None:
    """The report of who wants none."""


async def build(name: str, directory: Path, environment: Mapping[str, str], report: Report) -> Path:
    """Build a program from the modules in ``deploy/envtest``.

    Two processes never build at the same time; the second one finds what the first has built. The program appears in
    the folder whole or not at all.

    Args:
        name: ``etcd``, ``pause`` (what keeps a Pod's namespaces) or a command of k8s.io/kubernetes.
        directory: Where the program goes.
        environment: Variables for Go; ``PATH`` is where Go is looked for.
        report: Gets a line at the start, about every ten seconds and at the end.

    Raises:
        ConfigurationError: Go or the modules are missing, or the build failed or took over an hour.
    """
    go = shutil.which("go", path=environment.get("PATH", os.defpath))
    if go is None:
        raise ConfigurationError(
            f"{name} was not found in $KUBEBUILDER_ASSETS, on PATH or in {directory}, and building it needs Go, which "
            f"is not on PATH: install Go (https://go.dev/dl), or set KUBEBUILDER_ASSETS to a folder with {name}"
        )
    if not (MODULE_DIRECTORY / "go.mod").is_file():
        raise ConfigurationError(
            f"{name} cannot be built without {MODULE_DIRECTORY}: run from a checkout of the source"
        )
    await asyncio.to_thread(directory.mkdir, parents=True, exist_ok=True)
    program = directory / name
    async with locked(directory / ".build.lock", f"{name}: another process builds, waiting", report):
        if program.is_file() and os.access(program, os.X_OK):
            return program
        unfinished = directory / f".{name}.new"
        flags = await _version_flags(go, environment)
        package = _PACKAGES.get(name, f"k8s.io/kubernetes/cmd/{name}")
        arguments = ["build", "-trimpath", "-ldflags", f"-s -w {flags}", "-o", str(unfinished), package]
        await _run_build(name, [go, *arguments], directory / f"{name}.build.log", environment, report)
        unfinished.replace(program)
    return program


@contextlib.asynccontextmanager
async def locked(path: Path, waiting: str, report: Report) -> AsyncIterator[None]:
    """Hold a lock between processes; ``waiting`` is reported when another one has it."""
    with path.open("w") as lock:
        told = False
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if not told:
                    report(waiting)
                    told = True
                await asyncio.sleep(_LOCK_POLL_SECONDS)
        # Closing the file gives the lock back, and so does the end of this process, however it comes.
        yield


async def _version_flags(go: str, environment: Mapping[str, str]) -> str:
    """Return the linker flags without which the server calls itself v0.0.0, at which clients balk."""
    process = await asyncio.create_subprocess_exec(
        go,
        *("list", "-m", "-f", "{{.Version}}", "k8s.io/kubernetes"),
        cwd=MODULE_DIRECTORY,
        env=_go_environment(environment),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    output, errors = await _bounded(process, process.communicate())
    version = output.decode().strip()
    if process.returncode != 0 or not version.startswith("v"):
        raise ConfigurationError(f"go list in {MODULE_DIRECTORY} failed: {errors.decode('utf-8', 'replace').strip()}")
    major, minor = version[1:].split(".")[:2]
    values = {"gitVersion": version, "gitMajor": major, "gitMinor": minor}
    return " ".join(f"-X {_VERSION_PACKAGE}.{key}={value}" for key, value in values.items())


async def _run_build(
    name: str, command: list[str], log_path: Path, environment: Mapping[str, str], report: Report
) -> None:
    started = time.monotonic()
    report(f"{name}: building from Go modules, once per machine (log: {log_path})")
    with log_path.open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            *command, cwd=MODULE_DIRECTORY, env=_go_environment(environment), stdout=log, stderr=log
        )
    code = await _bounded(process, _wait_and_report(process, name, started, report))
    if code != 0:
        end = (await asyncio.to_thread(log_path.read_bytes))[-_LOG_TAIL_BYTES:].decode("utf-8", "replace").strip()
        raise ConfigurationError(f"{name}: the build failed, go ended with code {code}; the end of {log_path}:\n{end}")
    report(f"{name}: built in {time.monotonic() - started:.0f} s")


async def _wait_and_report(process: asyncio.subprocess.Process, name: str, started: float, report: Report) -> int:
    waiting = asyncio.ensure_future(process.wait())
    while True:
        done, _ = await asyncio.wait({waiting}, timeout=REPORT_SECONDS)
        if done:
            return waiting.result()
        report(f"{name}: still building, {time.monotonic() - started:.0f} s")


async def _bounded(process: asyncio.subprocess.Process, work: Awaitable[_T]) -> _T:
    """Wait for a Go command's end; on a cancellation (Ctrl-C) and past the deadline it is ended."""
    try:
        async with asyncio.timeout(BUILD_SECONDS):
            return await work
    except TimeoutError as error:
        raise ConfigurationError(f"go did not end within {BUILD_SECONDS:.0f} s and was stopped: try again") from error
    finally:
        if process.returncode is None:
            process.terminate()
            await process.wait()


def _go_environment(environment: Mapping[str, str]) -> dict[str, str]:
    return {**environment, "CGO_ENABLED": "0"}
