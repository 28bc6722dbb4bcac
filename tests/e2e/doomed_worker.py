"""A real worker that ends itself with SIGKILL at a named step, once.

Arguments: kubeconfig, namespace, installation, providers file, drift check interval in seconds, step. A step is
``before:<activity>`` or ``after:<activity>``; after means that the activity has had its effect and its result is lost.
An empty step lets it live.
"""

import asyncio
import os
import signal
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

from temporalio import activity
from temporalio.worker import ActivityInboundInterceptor, ExecuteActivityInput, Interceptor

from app.logs import set_up_logs
from app.settings import ClusterSettings, WorkerSettings
from app.worker import run_worker


class Doom(Interceptor):
    """Ends the process at the step."""

    def __init__(self, step: str) -> None:
        self.step = step

    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:
        return _DoomedActivity(next, self.step)


class _DoomedActivity(ActivityInboundInterceptor):
    def __init__(self, next: ActivityInboundInterceptor, step: str) -> None:
        super().__init__(next)
        self._step = step

    async def execute_activity(self, input: ExecuteActivityInput) -> Any:
        name = activity.info().activity_type
        self._end_at(f"before:{name}")
        result = await super().execute_activity(input)
        self._end_at(f"after:{name}")
        return result

    def _end_at(self, step: str) -> None:
        if step == self._step:
            os.kill(os.getpid(), signal.SIGKILL)


def main() -> None:
    kubeconfig, namespace, installation, providers, interval, step = sys.argv[1:]
    set_up_logs("text")
    settings = WorkerSettings(
        cluster=ClusterSettings(kubeconfig=Path(kubeconfig), proxy_namespace=namespace, installation=installation),
        providers_config=Path(providers),
        drift_check_interval=timedelta(seconds=float(interval)),
        require_local_task_queue=False,
    )
    asyncio.run(run_worker(settings, asyncio.Event(), [Doom(step)] if step else []))


if __name__ == "__main__":
    main()
