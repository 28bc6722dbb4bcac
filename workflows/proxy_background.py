"""What runs beside a Proxy's workflow for as long as nothing happens: waiting for an instance, probing it."""

from typing import Any

from temporalio import workflow
from temporalio.workflow import ActivityHandle

with workflow.unsafe.imports_passed_through():
    from model import messages, proxy_facts
    from workflows import activity_calls


class Background:
    """At most one wait and one watch, started again only when their subject is another one."""

    def __init__(self) -> None:
        self._awaiting: ActivityHandle[messages.InstanceAnswer] | None = None
        self._watching: ActivityHandle[messages.HealthReport] | None = None
        self._watched: messages.WatchHealth | None = None

    def has_news(self) -> bool:
        """Whether something ended and waits to be taken."""
        return _is_done(self._awaiting) or _is_done(self._watching)

    def has_report(self) -> bool:
        """Whether the watch ended and waits to be taken."""
        return _is_done(self._watching)

    @property
    def is_awaiting(self) -> bool:
        """Whether an instance is being waited for."""
        return self._awaiting is not None

    def await_instance(self, route: messages.ProviderRoute, query: messages.InstanceQuery) -> None:
        """Wait for the instance, unless that is being done."""
        if self._awaiting is None:
            self._awaiting = activity_calls.start_awaiting_instance(route, query)

    def watches(self, wanted: messages.WatchHealth) -> bool:
        """Whether the running watch is the wanted one."""
        return self._watched is not None and proxy_facts.same_target(self._watched, wanted)

    def watch_health(self, task_queue: str, wanted: messages.WatchHealth) -> None:
        """Probe this target and no other."""
        self.stop_watching()
        self._watched = wanted
        self._watching = activity_calls.start_watching_health(task_queue, wanted)

    def take_awaited(self) -> ActivityHandle[messages.InstanceAnswer] | None:
        """Return the ended wait, once."""
        if not _is_done(self._awaiting):
            return None
        ended, self._awaiting = self._awaiting, None
        return ended

    def take_watched(self) -> ActivityHandle[messages.HealthReport] | None:
        """Return the ended watch, once."""
        if not _is_done(self._watching):
            return None
        ended, self._watching, self._watched = self._watching, None, None
        return ended

    def stop_awaiting(self) -> None:
        """Stop waiting; its result is of no interest any more."""
        cancel_quietly(self._awaiting)
        self._awaiting = None

    def stop_watching(self) -> None:
        """Stop probing; a late verdict is dropped."""
        cancel_quietly(self._watching)
        self._watching, self._watched = None, None


def _is_done(handle: ActivityHandle[Any] | None) -> bool:
    return handle is not None and handle.done()


def cancel_quietly(handle: ActivityHandle[Any] | None) -> None:
    """Cancel an activity whose result is of no interest any more."""
    if handle is None:
        return
    # The result of a cancelled activity is looked at, or asyncio would complain that nobody did.
    handle.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
    handle.cancel()
