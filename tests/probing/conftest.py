"""Real parts for probes: an authority, origins, forward proxies."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from probing.probe import Prober
from tests.probing.certificates import Authority
from tests.probing.servers import Handler, Origin, ScriptedServer

Fake = Callable[[Handler], ScriptedServer]
START_SECONDS = 30.0


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture
def origin(authority: Authority) -> Iterator[Origin]:
    """A TLS origin that answers 204."""
    server = Origin(tls=authority.server("127.0.0.1", "localhost"))
    yield server
    server.close()


@pytest.fixture
def http_origin() -> Iterator[Origin]:
    """A plain origin that answers 204."""
    server = Origin()
    yield server
    server.close()


@pytest.fixture
def fake() -> Iterator[Fake]:
    """Start scripted proxies."""
    with ExitStack() as stack:

        def start(handler: Handler) -> ScriptedServer:
            server = ScriptedServer(handler)
            stack.callback(server.close)
            return server

        yield start


@pytest.fixture
def prober(authority: Authority) -> Iterator[Prober]:
    prober = Prober(ssl_context=authority.trust())
    yield prober
    prober.close()


@pytest.fixture
def dropping_port() -> Iterator[int]:
    """A port that drops the packets of whoever connects: its queue is full and nobody accepts."""
    with ExitStack() as stack:
        listener = stack.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for _ in range(4):
            filler = stack.enter_context(socket.socket())
            filler.setblocking(False)
            filler.connect_ex(listener.getsockname())
        yield listener.getsockname()[1]


@pytest.fixture
def closed_port() -> Iterator[int]:
    """A port that refuses: bound, so that nobody else gets it, and not listening."""
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        yield holder.getsockname()[1]


@pytest.fixture(scope="module")
def proxy_py_port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """A real forward proxy: proxy.py in a process of its own."""
    directory = tmp_path_factory.mktemp("proxy")
    port_file = directory / "port"
    command = [
        *(sys.executable, "-m", "proxy", "--hostname", "127.0.0.1", "--port", "0"),
        *("--num-workers", "1", "--num-acceptors", "1"),
        *("--port-file", str(port_file), "--data-dir", str(directory), "--log-level", "ERROR"),
    ]
    with (directory / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, env=os.environ | {"HOME": str(directory)})
        try:
            yield _port_from(port_file, process, directory / "log")
        finally:
            process.terminate()
            process.wait(START_SECONDS)


def _port_from(port_file: Path, process: "subprocess.Popen[bytes]", log: Path) -> int:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        assert process.poll() is None, log.read_text()
        if port_file.exists() and port_file.read_text().strip():
            return int(port_file.read_text())
        time.sleep(0.05)
    raise AssertionError(f"proxy.py did not start: {log.read_text()}")
