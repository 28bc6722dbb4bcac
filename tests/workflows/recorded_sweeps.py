"""The paths of the broker and of what runs on schedules whose histories are saved, over scripted activities."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

from temporalio import activity
from temporalio.client import Client
from temporalio.exceptions import ApplicationError
from temporalio.worker import Worker

from app.schedules import collection_schedule, drift_schedule, provider_check_schedule
from app.settings import CollectionSettings, ProviderCheckSettings
from leasing.client import BrokerClient
from model import messages, names
from model.collection_messages import DELETED, CollectOrphan, Findings, Orphan, OrphanQuery, Reconciliation
from model.lease_broker import PRIME_ACTIVITY, BrokerSettings
from model.provider_check_messages import CheckAnswer, CheckOutcome, CheckProvider, Published
from model.provider_health import REACHABLE, TargetHealth
from tests.e2e.polling import eventually
from tests.leasing.brokers import INSTALLATION, acquire, prime, transition
from tests.workflows.lease_broker_worker import running_broker
from tests.workflows.recorded_lives import Handle, refusal
from tests.workflows.sweeping import RUNNER, Runs, ended
from tests.workflows.test_lease_broker_replay import play
from workflows.drift_check import DriftCheck
from workflows.orphan_gc import OrphanGC
from workflows.provider_check import ProviderCheck

_INTERVAL = timedelta(seconds=6)


class Backends:
    """What the providers say: one is well, one is broken, and one has no worker."""

    def __init__(self, *providers: str) -> None:
        self.providers = providers
        self.orphans: list[Orphan] = []

    @activity.defn
    async def list_providers(self) -> list[messages.ProviderQueue]:
        queues = {"away": "nobody"}
        return [
            messages.ProviderQueue(name=name, task_queue=queues.get(name, names.QUEUE_PROVIDER))
            for name in self.providers
        ]

    @activity.defn
    async def find_orphans(self, query: OrphanQuery) -> Findings:
        if query.provider == "broken":
            raise refusal("TransientError", "page 3 could not be read")
        candidates = {orphan.provider_id: int(query.at) for orphan in self.orphans}
        doomed = self.orphans if query.seen_before else []
        return Findings(instances=5, spared={"live": 2, "foreign": 1}, candidates=candidates, doomed=doomed)

    @activity.defn
    async def existing_uids(self, _uids: list[str]) -> list[str]:
        return []

    @activity.defn
    async def collect_orphan(self, collect: CollectOrphan) -> str:
        if collect.orphan.uid == "stuck":
            raise refusal("TransientError", "it is still there")
        return DELETED

    @activity.defn
    async def reconcile_strays(self) -> Reconciliation:
        return Reconciliation(stale_broker_entries=1, stray_workflows=2, unconfigured={"former": 3})

    @activity.defn
    async def check_provider(self, check: CheckProvider) -> CheckAnswer:
        if check.provider == "broken":
            raise refusal("AccessDeniedError", "401")
        target = TargetHealth(name="host", address="h:1", ready=True, reason=REACHABLE, latency_millis=7)
        return CheckAnswer(implemented=True, targets=[target])

    @activity.defn
    async def publish_provider_health(self, outcome: CheckOutcome) -> Published:
        ready = outcome.answer is not None
        return Published(ready=str(ready), targets_ready=f"{int(ready)}/1", poked=2 * int(ready))

    @activity.defn
    async def remove_unconfigured_health(self) -> list[str]:
        return ["former"]

    @activity.defn
    async def find_drift(self, query: messages.DriftQuery) -> messages.DriftReport:
        if query.provider == "broken":
            raise refusal("TransientError", "it did not answer")
        poke = messages.Poke(namespace="ns", name="px", uid="uid-1", fingerprint="", look=True)
        return messages.DriftReport(pokes=[poke], proxies=3, instances=2)

    @activity.defn
    async def poke_proxies(self, _pokes: list[messages.Poke]) -> None:
        return None

    @property
    def activities(self) -> list[Any]:
        return [
            self.list_providers,
            self.find_orphans,
            self.existing_uids,
            self.collect_orphan,
            self.reconcile_strays,
            self.check_provider,
            self.publish_provider_health,
            self.remove_unconfigured_health,
            self.find_drift,
            self.poke_proxies,
        ]


@asynccontextmanager
async def serving(client: Client, backends: Backends) -> AsyncIterator[None]:
    control = Worker(
        client,
        task_queue=names.QUEUE_CONTROL,
        workflows=[OrphanGC, ProviderCheck, DriftCheck],
        activities=backends.activities,
        workflow_runner=RUNNER,
    )
    provider = Worker(client, task_queue=names.QUEUE_PROVIDER, activities=backends.activities)
    async with control, provider:
        yield


async def collection(client: Client) -> list[Handle]:
    """Seen once; deleted, failed and over the cap; a dry run; and nothing that can be listed."""
    backends = Backends("box", "broken", "away")
    backends.orphans = [Orphan(provider_id=f"id-{uid}", incarnation="1", uid=uid) for uid in ("one", "stuck", "three")]

    async def runs_of(seen: list[str], **changes: Any) -> Runs:
        settings = CollectionSettings(interval=_INTERVAL, minimum_age=timedelta(minutes=1), max_deletes=2, **changes)
        runs = await Runs.of(client, names.ORPHAN_GC_ID, collection_schedule(settings))
        runs.seen = seen
        return runs

    async with serving(client, backends):
        runs = await runs_of([])
        for _ in range(2):
            await runs.sweep()
        dry = await runs_of(runs.seen, dry_run=True)
        await dry.sweep()
        backends.providers = ("broken",)
        await ended(await dry.start())
    return [client.get_workflow_handle(workflow_id) for workflow_id in dry.seen]


async def checks(client: Client) -> list[Handle]:
    """One that passes, one refused, one that nobody serves, one that is not configured any more."""
    settings = ProviderCheckSettings(interval=timedelta(seconds=20), timeout=timedelta(seconds=2))
    async with serving(client, Backends("box", "broken", "away")):
        runs = await Runs.of(client, names.PROVIDER_CHECK_ID, provider_check_schedule(settings))
        handle = await runs.start()
        await ended(handle)
    return [handle]


async def drift(client: Client) -> list[Handle]:
    """One with something to look at, one that cannot be listed."""
    async with serving(client, Backends("box", "broken")):
        runs = await Runs.of(client, names.DRIFT_CHECK_ID, drift_schedule(_INTERVAL))
        handle = await runs.start()
        await ended(handle)
    return [handle]


async def broker(client: Client) -> list[Handle]:
    """All kinds of operations over several runs."""
    await play(client)
    return [client.get_workflow_handle(names.LEASE_BROKER_ID)]


async def broker_drain(client: Client) -> list[Handle]:
    """Primed by an activity at the second try; then a proxy drains, is replaced and goes."""
    settings = BrokerSettings(continue_as_new_after=12)
    tries = 0

    @activity.defn(name=PRIME_ACTIVITY)
    async def prime_broker() -> None:
        nonlocal tries
        tries += 1
        if tries == 1:
            raise ApplicationError("the API server is away", type="ClusterUnavailableError")
        await prime(leasing, 2, max_leases=3)

    leasing = BrokerClient(client, INSTALLATION, settings=settings)
    async with running_broker(client, sandbox=True, activities=[prime_broker]):
        await leasing.tell(transition("ns/9999"), 20)
        await eventually(lambda: _primed(leasing))
        held, _ = await acquire(leasing, ttl=400)
        ends_at = int(time.time() * 1000) + 60_000
        for place in range(2):
            draining = transition(f"ns/{place:04}", counter=2, leasable=False, drain_ends_at=ends_at)
            await leasing.tell(draining, 20)
        await leasing.renew(held, 900_000)
        await leasing.tell(transition("ns/0000", counter=3, instance="second"), 20)
        await leasing.renew(held, 900_000)
        lease, _ = await acquire(leasing, "shop.example.com")
        await leasing.report(lease, "banned", "shop.example.com", 60_000)
        await leasing.release(lease)
        await leasing.close()
    return [client.get_workflow_handle(names.LEASE_BROKER_ID)]


async def _primed(leasing: BrokerClient) -> bool:
    return (await leasing.summary()).primed
