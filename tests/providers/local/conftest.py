"""Real squid and real proxy.py processes on loopback addresses."""

import http.server
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from providers.local.software import find_squid
from tests.providers.local.boxes import TestBox, new_box

BoxFactory = Callable[..., TestBox]


@pytest.fixture(params=["squid", "proxy.py"])
def software(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    if name == "squid":
        need_squid()
    return name


def need_squid() -> None:
    """Skip the test where squid is not installed; in CI, fail it."""
    if find_squid() is None:
        if os.environ.get("CI") == "true":
            pytest.fail("squid is not installed, and CI has to test it")
        pytest.skip("squid is not installed (Debian: apt-get install squid)")


@pytest.fixture
def make_box(tmp_path: Path) -> Iterator[BoxFactory]:
    """Make boxes; none of their processes outlives the test."""
    boxes: list[TestBox] = []

    def make(software: str, **options: int) -> TestBox:
        box = new_box(tmp_path / f"box-{len(boxes)}", software, **options)
        boxes.append(box)
        return box

    yield make
    for box in boxes:
        box.kill_processes()


@pytest.fixture
def box(make_box: BoxFactory, software: str) -> TestBox:
    return make_box(software)


@pytest.fixture
def squid_box(make_box: BoxFactory) -> TestBox:
    """A box whose instances are squids."""
    need_squid()
    return make_box("squid")


@pytest.fixture
def proxy_py_box(make_box: BoxFactory) -> TestBox:
    """A box for what does not depend on the software."""
    return make_box("proxy.py")


class _Page(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        headers = {name.lower() for name in self.headers}
        body = f"page for {self.client_address[0]} with {sorted(headers)}".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Keep the test's output free of requests."""


@pytest.fixture(scope="session")
def origin() -> Iterator[int]:
    """The port of a plain HTTP server on 127.0.0.1."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Page) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        yield server.server_address[1]
        server.shutdown()
        thread.join()
