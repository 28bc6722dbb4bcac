"""Leases per second: the product beside memory and Redis behind the same handlers, under the same load in one run."""

import asyncio
import contextlib
import statistics
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from app.dev.ports import PortBook
from app.dev.processes import ChildProcess
from app.dev.report import progress, step
from bench.installation import Installation
from bench.load import Load, LoadPlan
from bench.local_commit import encode_proxies
from bench.redis_server import ensure_redis, start_redis
from bench.results import Row, percentile
from bench.running_load import run_load, start_broker
from bench.usage import Usage
from leasing.client import BrokerClient

DURABLE, IN_MEMORY, REDIS = "durable", "in_memory", "redis"
CLIENTS = (1, 16, 64, 256)
MOST = CLIENTS[-1]
IN_MEMORY_RATIO_TARGET = 0.55
REDIS_RATIO_TARGET = 1.5
ACQUIRE_P50_TARGET_MILLIS = 20.0
ACQUIRE_P99_TARGET_MILLIS = 150.0
_WARM_UP_SECONDS = 0.4
_ROUNDS = 5
"""Short rounds in turn, and medians over them: what else the machine does hits every side, and seldom most rounds."""


@dataclass(frozen=True)
class Series:
    """What was measured of one side, by number of clients.

    Attributes:
        rounds: Leases per second of each round, in the order in which the sides took turns.
    """

    rounds: dict[int, list[float]] = field(default_factory=dict)
    p50: dict[int, float] = field(default_factory=dict)
    p99: dict[int, float] = field(default_factory=dict)

    def add(self, clients: int, loads: Sequence[Load]) -> None:
        """Take in the rounds with so many clients."""
        millis = [value for load in loads for value in load.millis]
        self.rounds[clients] = [len(load.millis) / load.seconds for load in loads]
        self.p50[clients] = percentile(millis, 50)
        self.p99[clients] = percentile(millis, 99)

    @property
    def per_second(self) -> dict[int, float]:
        """The median round's leases per second."""
        return {clients: statistics.median(rates) for clients, rates in self.rounds.items()}


def ratios(one: Series, other: Series, clients: int) -> list[float]:
    """Return how many times as many leases ``one`` made as ``other``, round by round."""
    return [mine / its for mine, its in zip(one.rounds[clients], other.rounds[clients], strict=True)]


async def measure(installation: Installation, broker: BrokerClient, seconds: float) -> dict[str, Series]:
    """Measure every side with every number of clients, in rounds, so that a slow moment does not hit one side alone."""
    proxies = installation.directory / "proxies.json"
    await asyncio.to_thread(proxies.write_text, encode_proxies((await broker.list_proxies()).proxies))
    async with _sides(installation, proxies) as (ports, children):
        series = {side: Series() for side in ports}
        for clients in CLIENTS:
            with step(f"leases/s, {clients} client{'s' if clients > 1 else ''}: each acquired, then released"):
                usage = Usage({**installation.children, **children})
                loads: dict[str, list[Load]] = {side: [] for side in ports}
                for _ in range(_ROUNDS):
                    for side, port in ports.items():
                        plan = LoadPlan(port=port, clients=clients, warm_up=_WARM_UP_SECONDS, seconds=seconds)
                        loads[side].append(await run_load(plan))
                for side, rounds in loads.items():
                    series[side].add(clients, rounds)
                    progress(_line(side, rounds))
                progress(usage.spent())
        return series


@contextlib.asynccontextmanager
async def _sides(
    installation: Installation, proxies: Path
) -> AsyncIterator[tuple[dict[str, int], dict[str, ChildProcess]]]:
    """Yield the port of every side, and what was started for it."""
    directory, ports = installation.directory, PortBook(installation.directory / "ports.json")
    chosen = ports.choose("memory-api", "redis-api")
    children: dict[str, ChildProcess] = {}
    sides = {DURABLE: installation.api_port, IN_MEMORY: chosen["memory-api"]}
    try:
        log = directory / "logs" / "memory.log"
        children["in-memory"] = await start_broker("memory", proxies, chosen["memory-api"], log)
        if await ensure_redis(progress):
            children["redis"], redis_port = await start_redis(directory, ports)
            log = directory / "logs" / "redis-broker.log"
            children["redis-api"] = await start_broker("redis", proxies, chosen["redis-api"], log, str(redis_port))
            sides[REDIS] = chosen["redis-api"]
        yield sides, children
    finally:
        for child in reversed(children.values()):
            await child.stop()


def _line(side: str, rounds: Sequence[Load]) -> str:
    each = ", ".join(f"{len(load.millis) / load.seconds:.0f}/s" for load in rounds)
    took = sum(load.cpu_seconds for load in rounds) / sum(load.seconds + _WARM_UP_SECONDS for load in rounds)
    return f"{side}: {each}; the clients took {took * 100:.0f} % of a core"


def rows(series: Mapping[str, Series]) -> list[Row]:
    """Return the rows of the table."""
    found: list[Row] = []
    for clients in CLIENTS:
        of = f"{clients}_client{'s' if clients > 1 else ''}"
        for side, one in series.items():
            prefix = "" if side == DURABLE else f"{side}_"
            p50 = ACQUIRE_P50_TARGET_MILLIS if side == DURABLE and clients == 1 else None
            p99 = ACQUIRE_P99_TARGET_MILLIS if side == DURABLE and clients == MOST else None
            found += [
                Row(name=f"{prefix}leases_per_second_{of}", value=one.per_second[clients], unit="1/s"),
                Row(name=f"{prefix}acquire_p50_{of}", value=one.p50[clients], unit="ms", target=p50),
                Row(name=f"{prefix}acquire_p99_{of}", value=one.p99[clients], unit="ms", target=p99),
            ]
        for side, target in ((IN_MEMORY, IN_MEMORY_RATIO_TARGET), (REDIS, REDIS_RATIO_TARGET)):
            if side in series:
                each = ratios(series[DURABLE], series[side], clients)
                name = f"durable_to_{side}_ratio_{of}"
                asked = target if clients == MOST else None
                found += [
                    Row(name=name, value=statistics.median(each), unit="ratio", target=asked, at_least=True),
                    Row(name=f"{name}_lowest_round", value=min(each), unit="ratio"),
                    Row(name=f"{name}_highest_round", value=max(each), unit="ratio"),
                ]
    return found
