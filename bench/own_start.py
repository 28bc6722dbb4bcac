"""What starting the forward proxies takes by itself: the same programs and configs, started directly."""

import asyncio
import secrets
import signal
import ssl
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from ipaddress import IPv4Network
from itertools import islice
from pathlib import Path

from app.dev.processes import guard
from bench.installation import PROXY_PORT, Installation
from bench.results import BenchError
from model.probe import ProbeOutcome
from probing.probe import Prober, ProbeRequest
from providers.local import process, software
from providers.local.addresses import Port, port_state
from providers.local.process import ProcessIdentity
from providers.local.records import InstanceRecord
from providers.local.settings import Software
from providers.local.spawning import spawn

_NETWORK = IPv4Network("127.77.3.0/24")
_DEADLINE_SECONDS = 60.0
_END_SECONDS = 5.0
_POLL_SECONDS = 0.02


async def own_start(installation: Installation, kind: Software, count: int) -> float:
    """Return seconds from the first start until a probe has gone through every one of ``count`` proxies.

    Raises:
        BenchError: Not all of them worked in time.
    """
    prober = Prober(ssl_context=ssl.create_default_context(cafile=str(installation.authority)), target_check=False)
    records = _records(kind, count)
    # One that starts alone is asked often; many are asked less often each, so that asking does not slow them down.
    pause = min(0.1, 0.005 * count)
    try:
        async with _ended_afterwards(records) as started:
            begun = time.perf_counter()
            await asyncio.to_thread(_spawn_all, installation.directory / "own-start", records, started)
            try:
                async with asyncio.timeout(_DEADLINE_SECONDS):
                    requests = [_request(installation.probe_url, record) for record in records]
                    await asyncio.gather(*(_until_it_works(prober, request, pause) for request in requests))
            except TimeoutError:
                raise BenchError(f"{count} x {kind.value}, started directly, do not all work") from None
            return time.perf_counter() - begun
    finally:
        await asyncio.to_thread(prober.close)


def _records(kind: Software, count: int) -> list[InstanceRecord]:
    free = (str(one) for one in _NETWORK.hosts() if port_state(str(one), PROXY_PORT) is Port.FREE)
    addresses = list(islice(free, count))
    if len(addresses) < count:
        raise BenchError(f"only {len(addresses)} addresses of {_NETWORK} have port {PROXY_PORT} free")
    return [_record(kind, address) for address in addresses]


def _record(kind: Software, address: str) -> InstanceRecord:
    incarnation = secrets.token_hex(8)
    return InstanceRecord(
        name=f"proxy-{incarnation}",
        managed=True,
        uid=incarnation,
        installation="bench",
        spec_hash="",
        created_at=datetime.now(UTC).isoformat(),
        incarnation=incarnation,
        address=address,
        port=PROXY_PORT,
        software=kind.value,
    )


def _spawn_all(directory: Path, records: list[InstanceRecord], started: list[ProcessIdentity]) -> None:
    for record in records:
        folder = directory / record.name
        folder.mkdir(parents=True)
        identity = spawn(folder, record)
        started.append(identity)
        guard.watch(identity.pid)


def _request(url: str, record: InstanceRecord) -> ProbeRequest:
    return ProbeRequest(
        proxy_host=record.address,
        proxy_port=record.port,
        url=url,
        timeout_seconds=10.0,
        expected_status_codes=(204,),
    )


async def _until_it_works(prober: Prober, request: ProbeRequest, pause: float) -> None:
    while (await prober.probe(request)).outcome is not ProbeOutcome.WORKS:  # noqa: ASYNC110 - another process is waited for
        await asyncio.sleep(pause)


@asynccontextmanager
async def _ended_afterwards(records: list[InstanceRecord]) -> AsyncIterator[list[ProcessIdentity]]:
    """Yield a list for what gets started; at the end all of it is killed, because a proxy has nothing to lose."""
    started: list[ProcessIdentity] = []
    try:
        yield started
    finally:
        await asyncio.to_thread(_end, started)
        for record in records:
            software.remove_shared_memory(record)


def _end(started: list[ProcessIdentity]) -> None:
    for identity in started:
        process.send(identity, signal.SIGKILL)
    end = time.monotonic() + _END_SECONDS
    while any(process.is_alive(identity) for identity in started) and time.monotonic() < end:
        time.sleep(_POLL_SECONDS)
    for identity in started:
        guard.forget(identity.pid)
