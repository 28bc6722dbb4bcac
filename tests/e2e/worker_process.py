"""A real worker in a process of its own, which can be stopped at the boundaries of activities.

One argument, JSON: ``kubeconfig``, ``namespace``, ``installation``, ``providers`` (the file), ``drift_seconds``,
``queues`` (to serve; none means all) and ``gates`` (the folder of ``tests.e2e.gates``; "" means no gates). Temporal is
found through its variables.
"""

import asyncio
import json
import sys
from datetime import timedelta
from pathlib import Path

from app.logs import set_up_logs
from app.settings import ClusterSettings, WorkerSettings
from app.worker import run_worker
from tests.e2e.gates import GateKeeper


def main() -> None:
    told = json.loads(sys.argv[1])
    set_up_logs("text")
    cluster = ClusterSettings(
        kubeconfig=Path(told["kubeconfig"]), proxy_namespace=told["namespace"], installation=told["installation"]
    )
    settings = WorkerSettings(
        cluster=cluster,
        providers_config=Path(told["providers"]),
        task_queues=tuple(told["queues"]),
        drift_check_interval=timedelta(seconds=told["drift_seconds"]),
        require_local_task_queue=False,
    )
    interceptors = [GateKeeper(Path(told["gates"]))] if told["gates"] else []
    asyncio.run(run_worker(settings, asyncio.Event(), interceptors))


if __name__ == "__main__":
    main()
