"""A worker in a process of its own, whose deletions of orphans wait until the test lets them go on."""

import asyncio
import dataclasses
import json
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

from temporalio.worker import ActivityInboundInterceptor, ExecuteActivityInput, Interceptor

from app.settings import ClusterSettings, CollectionSettings, ProviderCheckSettings, WorkerSettings
from app.worker import run_worker


class _Held(ActivityInboundInterceptor):
    def __init__(self, next: ActivityInboundInterceptor, directory: Path) -> None:
        super().__init__(next)
        self._directory = directory

    async def execute_activity(self, input: ExecuteActivityInput) -> Any:
        if input.fn.__name__ == "collect_orphan":
            (self._directory / "reached").touch()
            while not (self._directory / "open").exists():  # noqa: ASYNC110 - the test is another process
                await asyncio.sleep(0.05)
        return await super().execute_activity(input)


class HeldDeletions(Interceptor):
    """``reached`` in the folder says that a deletion waits, ``open`` lets it go on."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:
        return _Held(next, self._directory)


def settings_from(told: dict[str, Any]) -> WorkerSettings:
    return WorkerSettings(
        cluster=ClusterSettings(
            kubeconfig=Path(told["kubeconfig"]), proxy_namespace=told["namespace"], installation=told["installation"]
        ),
        providers_config=Path(told["providers"]),
        collection=CollectionSettings(
            interval=timedelta(seconds=told["interval"]), minimum_age=timedelta(seconds=1), allow_namespaced=True
        ),
        provider_check=dataclasses.replace(ProviderCheckSettings(), interval=timedelta(seconds=10)),
        require_local_task_queue=False,
    )


if __name__ == "__main__":
    arguments = json.loads(sys.argv[1])
    asyncio.run(run_worker(settings_from(arguments), asyncio.Event(), [HeldDeletions(Path(arguments["gates"]))]))
