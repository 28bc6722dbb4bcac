"""Gates at the boundaries of activities: a worker stops there until the test lets it go on.

Test and worker are processes of their own, so what they say to each other are files in one folder:
``<proxy>.cell`` names where the Proxy's workflow is to be stopped, ``<proxy>.reached`` says that it is,
``open`` lets everything go on, ``<proxy>.late`` what became of a call that nobody waited for any more.
"""

import asyncio
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from temporalio import activity
from temporalio.worker import ActivityInboundInterceptor, ExecuteActivityInput, Interceptor

from tests.e2e.polling import eventually

_POLL_SECONDS = 0.05
_BEAT_SECONDS = 1.0


@dataclass(frozen=True, order=True)
class Boundary:
    """Before an activity runs, or after it had its effect and before anybody heard of its result.

    Attributes:
        activity: Its name.
        occurrence: The how many-th of that name since the gate was set, from 1.
        side: ``before`` or ``after``.
        late: Only the first attempt stops, without a sign of life; it goes on however long ago it was given up.
    """

    activity: str
    occurrence: int
    side: str
    late: bool = False

    def __str__(self) -> str:
        return f"{self.side} {self.activity} {self.occurrence}{' late' if self.late else ''}"

    @property
    def name(self) -> str:
        """The same as a Proxy's name."""
        return str(self).replace(" ", "-").replace("_", "-")

    @classmethod
    def parse(cls, text: str) -> "Boundary":
        side, name, occurrence, *late = text.split()
        return cls(name, int(occurrence), side, bool(late))


class Gates:
    """The folder, as the test sees it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir(exist_ok=True)

    def set(self, proxy: str, boundary: Boundary) -> None:
        """Stop the Proxy's workflow at a boundary that comes from now on."""
        fresh = self.directory / f"{proxy}.new"
        fresh.write_text(str(boundary))
        fresh.replace(self.directory / f"{proxy}.cell")

    def reached(self, proxy: str) -> bool:
        """Whether it has stopped there."""
        return (self.directory / f"{proxy}.reached").exists()

    async def wait(self, proxy: str) -> None:
        """Wait until it has stopped there."""

        async def look() -> bool:
            return self.reached(proxy)

        await eventually(look)

    def late(self, proxy: str) -> str:
        """Return what became of a late call, or "" while it has not ended."""
        path = self.directory / f"{proxy}.late"
        return path.read_text() if path.exists() else ""

    def open(self) -> None:
        """Let everything go on, and stop nothing any more."""
        (self.directory / "open").touch()


class GateKeeper(Interceptor):
    """Stops activities in the worker."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._seen: dict[tuple[str, str], list[str]] = defaultdict(list)

    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:
        return _GatedActivity(next, self)

    @property
    def is_open(self) -> bool:
        return (self.directory / "open").exists()

    def boundary(self) -> Boundary | None:
        """Return the boundary of the running activity where it has to stop, or None."""
        info = activity.info()
        cell = self.directory / f"{proxy_name(info)}.cell"
        if self.is_open or not cell.exists():
            return None
        boundary = Boundary.parse(cell.read_text())
        # An attempt of an activity that was seen before is no further occurrence.
        seen = self._seen[info.workflow_id or "", info.activity_type]
        scheduled = f"{info.workflow_run_id}/{info.activity_id}"
        if scheduled not in seen:
            seen.append(scheduled)
        is_meant = boundary.activity == info.activity_type and seen.index(scheduled) + 1 == boundary.occurrence
        return boundary if is_meant and not (boundary.late and info.attempt > 1) else None

    async def hold(self, *, beating: bool) -> None:
        """Say that the boundary is reached and wait until the test lets go."""
        info = activity.info()
        (self.directory / f"{proxy_name(info)}.reached").touch()
        loop = asyncio.get_running_loop()
        beat_at = loop.time()
        while not self.is_open:
            if beating and info.heartbeat_timeout is not None and loop.time() >= beat_at:
                activity.heartbeat()
                beat_at = loop.time() + _BEAT_SECONDS
            await asyncio.sleep(_POLL_SECONDS)


class _GatedActivity(ActivityInboundInterceptor):
    def __init__(self, next: ActivityInboundInterceptor, keeper: GateKeeper) -> None:
        super().__init__(next)
        self._keeper = keeper

    async def execute_activity(self, input: ExecuteActivityInput) -> Any:
        boundary = self._keeper.boundary()
        if boundary is None:
            return await super().execute_activity(input)
        if boundary.late:
            return await asyncio.shield(asyncio.create_task(self._run_late(input)))
        if boundary.side == "before":
            await self._keeper.hold(beating=True)
        result = await super().execute_activity(input)
        if boundary.side == "after":
            await self._keeper.hold(beating=True)
        return result

    async def _run_late(self, input: ExecuteActivityInput) -> Any:
        note = self._keeper.directory / f"{proxy_name(activity.info())}.late"
        await self._keeper.hold(beating=False)
        try:
            result = await super().execute_activity(input)
        except Exception as error:
            note.write_text(f"failed: {error}")
            raise
        note.write_text(f"returned: {result}")
        return result


def proxy_name(info: activity.Info) -> str:
    """Return the name of the Proxy that an activity is for."""
    return (info.workflow_id or "").rpartition("/")[2]
