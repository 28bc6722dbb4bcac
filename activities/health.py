"""The long-lived watch of one proxy's health."""

import asyncio
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from temporalio import activity
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory

from leasing.doubt_book import DoubtBook
from leasing.latency_book import LatencyBook
from model import messages, names
from model.health import HealthState
from model.probe import ProbeOutcome, ProbeResult
from probing.metrics import MeasuredProber, ProbeMetrics
from probing.probe import Prober, ProbeRequest
from probing.watch import HealthWatch, Probes, WatchTarget

_HAND_OVER_DELAY = timedelta(milliseconds=50)


class HealthActivities:
    """Activities of a probe queue; one watch per uid in a process, and a newer one ends an older."""

    def __init__(self, prober: Prober, metrics: ProbeMetrics, latencies: LatencyBook) -> None:
        self._prober = prober
        self._metrics = metrics
        self._latencies = latencies
        self._running: dict[str, tuple[tuple[int, int], asyncio.Future[Any]]] = {}

    @activity.defn
    async def watch_health(self, watch: messages.WatchHealth) -> messages.HealthReport:
        """Probe until something changes.

        When the worker shuts down, the attempt ends at once and the next worker goes on with the same counters.
        """
        uid = watch.reference.uid
        health = self._watch(watch)
        probing = asyncio.ensure_future(health.run(activity.heartbeat))
        closing = asyncio.ensure_future(activity.wait_for_worker_shutdown())
        try:
            self._take_over(uid, watch.order, probing)
            self._latencies.doubts.watch(uid, health.wake)
            await asyncio.wait((probing, closing), return_when=asyncio.FIRST_COMPLETED)
            if probing.cancelled():
                raise _superseded()
            if not probing.done():
                raise _worker_leaves()
            state, change = probing.result()
            return messages.HealthReport(state=state, change=change)
        except asyncio.CancelledError:
            self._forget(watch)
            raise
        finally:
            probing.cancel()
            closing.cancel()
            self._latencies.doubts.leave(uid, health.wake)
            running = self._running.get(uid)
            if running is not None and running[1] is probing:
                del self._running[uid]

    def _take_over(self, uid: str, order: tuple[int, int], probing: asyncio.Future[Any]) -> None:
        """End an older watch of the same proxy, or this one where a newer runs."""
        running = self._running.get(uid)
        if running is not None and running[0] > order:
            probing.cancel()
            raise _superseded()
        if running is not None:
            running[1].cancel()
        self._running[uid] = (order, probing)

    def _watch(self, watch: messages.WatchHealth) -> HealthWatch:
        reference = watch.reference
        proxy = names.proxy_id(reference.namespace, reference.name)

        def on_probe(result: ProbeResult) -> None:
            if result.outcome is ProbeOutcome.WORKS:
                self._latencies.note(proxy, reference.uid, result.latency_millis)

        measured = MeasuredProber(prober=self._prober, metrics=self._metrics, proxy=proxy)
        return HealthWatch(
            prober=_DoubtedProber(measured, self._latencies.doubts, proxy, watch),
            target=WatchTarget(
                namespace=reference.namespace,
                name=reference.name,
                uid=reference.uid,
                host=watch.host,
                port=watch.port,
                check=watch.check,
            ),
            state=_last_heartbeat() or watch.state,
            on_probe=on_probe,
        )

    def _forget(self, watch: messages.WatchHealth) -> None:
        proxy = names.proxy_id(watch.reference.namespace, watch.reference.name)
        self._metrics.forget(proxy)
        self._latencies.forget(proxy, watch.reference.uid)


class _DoubtedProber:
    """A prober that tells what it found to those who doubt the proxy."""

    def __init__(self, prober: Probes, doubts: DoubtBook, proxy_id: str, watch: messages.WatchHealth) -> None:
        self._prober = prober
        self._doubts = doubts
        self._proxy_id = proxy_id
        self._uid = watch.reference.uid
        self._next_in = watch.check.interval_seconds + watch.check.timeout_seconds

    async def probe(self, request: ProbeRequest) -> ProbeResult:
        """Probe once."""
        started = asyncio.get_running_loop().time()
        result = await self._prober.probe(request)
        if result.outcome is not ProbeOutcome.NO_VERDICT:
            works = result.outcome is ProbeOutcome.WORKS
            self._doubts.note(self._proxy_id, self._uid, started=started, works=works, next_in=self._next_in)
        return result


def _last_heartbeat() -> HealthState | None:
    """Return the counters that an attempt before this one left."""
    details = activity.info().heartbeat_details
    if not details or not isinstance(details[0], Mapping):
        return None
    left = dict(details[0])
    left["reported_reasons"] = tuple(left.get("reported_reasons", ()))
    return HealthState(**left)


def _superseded() -> ApplicationError:
    return ApplicationError("a newer watch of this proxy runs", type="Superseded", non_retryable=True)


def _worker_leaves() -> ApplicationError:
    return ApplicationError(
        "the worker shuts down; another goes on",
        type="WorkerShutdown",
        next_retry_delay=_HAND_OVER_DELAY,
        category=ApplicationErrorCategory.BENIGN,
    )
