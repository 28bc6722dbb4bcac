"""What a probe costs the worker."""

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from model.probe import ProbeOutcome
from probing.probe import Prober
from tests.probing.certificates import Authority
from tests.probing.requests import request

PROBES = 200
MOST_CPU_MILLIS = 4.0


@pytest.fixture
def remote_origin_port(authority: Authority) -> Iterator[int]:
    """A TLS origin in a process of its own, so that its work is not counted as the probe's."""
    program = Path(__file__).with_name("origin_process.py")
    command = [sys.executable, str(program), str(authority.server_files("127.0.0.1"))]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield int(process.stdout.readline())
        process.communicate("", timeout=30)


async def test_a_probe_over_tls_stays_within_its_share_of_cpu(
    prober: Prober, proxy_py_port: int, remote_origin_port: int
) -> None:
    probe = request(proxy_py_port, f"https://127.0.0.1:{remote_origin_port}/", timeout=10)
    assert (await prober.probe(probe)).outcome is ProbeOutcome.WORKS
    started = time.process_time()
    for _ in range(PROBES):
        assert (await prober.probe(probe)).outcome is ProbeOutcome.WORKS
    millis = (time.process_time() - started) / PROBES * 1000
    assert millis <= MOST_CPU_MILLIS, f"{millis:.2f} ms"
