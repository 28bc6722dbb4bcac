"""The API in a process of its own, with its broker, so that its log, memory and life can be watched from outside."""

import asyncio
import logging
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import psutil
from google.protobuf.duration_pb2 import Duration
from prometheus_client import CollectorRegistry
from temporalio.api.workflowservice.v1 import RegisterNamespaceRequest
from temporalio.client import Client

from api.application import create_app
from api.server import ApiServer
from api.settings import ApiSettings
from tests.leasing.brokers import broker_with, transition

TOKEN = "fuzz-token"
PROXIES = 3
START_SECONDS = 60.0
GROWTH_LIMIT = 150 * 1024 * 1024
"""Bytes that the process may grow by: it holds the Temporal worker with the broker's leases and history too."""


@dataclass
class FuzzTarget:
    """A running API."""

    port: int
    process: subprocess.Popen[bytes]
    log_file: Path
    rss_at_start: int

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def check_whole(self) -> None:
        """Fail if the process died, logged an error or grew without bound."""
        assert self.process.poll() is None, self.log_file.read_text()[-2000:]
        log = self.log_file.read_text()
        assert "Traceback" not in log, log[-4000:]
        assert "ERROR" not in log, log[-4000:]
        growth = psutil.Process(self.process.pid).memory_info().rss - self.rss_at_start
        assert growth < GROWTH_LIMIT, f"the API grew by {growth >> 20} MiB"


@contextmanager
def fuzz_target(temporal_address: str, directory: Path) -> Iterator[FuzzTarget]:
    """Start the API and stop it afterwards."""
    port_file, log_file = directory / "port", directory / "api.log"
    with log_file.open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.api.fuzz_target", temporal_address, str(port_file)],
            stdout=log,
            stderr=log,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        )
    try:
        deadline = time.monotonic() + START_SECONDS
        while not port_file.exists():
            assert process.poll() is None, log_file.read_text()
            assert time.monotonic() < deadline, "the API did not start"
            time.sleep(0.05)
        rss = psutil.Process(process.pid).memory_info().rss
        yield FuzzTarget(int(port_file.read_text()), process, log_file, rss)
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(10)


async def _main(temporal_address: str, port_file: Path) -> None:
    logging.basicConfig(level=logging.WARNING)
    namespace = f"fuzz-{uuid.uuid4().hex[:12]}"
    client = await Client.connect(temporal_address)
    retention = Duration()
    retention.FromTimedelta(timedelta(days=1))
    register = RegisterNamespaceRequest(namespace=namespace, workflow_execution_retention_period=retention)
    await client.workflow_service.register_namespace(register, timeout=timedelta(seconds=30))
    client = await Client.connect(temporal_address, namespace=namespace)
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    async with broker_with(client, PROXIES) as broker:
        await broker.tell(transition("ns/roomy", attributes={"geo": "eu"}, max_leases=10_000))
        settings = ApiSettings(discovery_addr="127.0.0.1:0", token=TOKEN.encode())
        server = ApiServer(create_app(settings, broker, CollectorRegistry()), settings)
        await server.start()
        written = port_file.with_suffix(".new")
        written.write_text(str(server.port))
        written.replace(port_file)
        await stop.wait()
        await server.stop()


if __name__ == "__main__":
    asyncio.run(_main(sys.argv[1], Path(sys.argv[2])))
