"""How much processor time each part of the system took."""

from collections.abc import Mapping

import psutil

from app.dev.processes import ChildProcess

_WORTH_SAYING_SECONDS = 0.05


class Usage:
    """Processor time from the making of this object on; children that proxies are do not count."""

    def __init__(self, children: Mapping[str, ChildProcess]) -> None:
        self._processes = {name: psutil.Process(child.pid) for name, child in children.items()}
        self._before = self._now()

    def spent(self) -> str:
        """Return one line, the costliest first."""
        after = self._now()
        spent = {name: after[name] - self._before[name] for name in after}
        costly = sorted(spent.items(), key=lambda item: -item[1])
        parts = [f"{name} {seconds:.2f}" for name, seconds in costly if seconds >= _WORTH_SAYING_SECONDS]
        return f"processor seconds: {', '.join(parts)}"

    def _now(self) -> dict[str, float]:
        times = {name: process.cpu_times() for name, process in self._processes.items()}
        return {name: time.user + time.system for name, time in times.items()}
