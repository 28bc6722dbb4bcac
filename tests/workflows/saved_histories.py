"""The saved histories: where they are, what may not be in them, and what replays them."""

import base64
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from temporalio.client import WorkflowHistory
from temporalio.worker import Replayer, WorkflowRunner
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner, SandboxRestrictions

from workflows.drift_check import DriftCheck
from workflows.lease_broker import LeaseBroker
from workflows.orphan_gc import OrphanGC
from workflows.provider_check import ProviderCheck
from workflows.proxy import ProxyWorkflow

DIRECTORY = Path(__file__).parent / "histories"
WORKFLOWS = (ProxyWorkflow, LeaseBroker, OrphanGC, ProviderCheck, DriftCheck)

_DROPPED = frozenset(
    {
        # What tells of the machine or of the build.
        *("stackTrace", "identity", "workerVersion", "binaryChecksum", "meteringMetadata", "clientName"),
        # What the server alone goes by: a replay compares activities by their number and name.
        *("retryPolicy", "requestId", "taskId", "priority", "header", "historySizeBytes", "heartbeatTimeout"),
        *("scheduleToCloseTimeout", "scheduleToStartTimeout", "startToCloseTimeout"),
    }
)
_UNIX_PATH = re.compile(r"(?<![\w/.:-])/(?:home|tmp|var|usr|opt|Users)/")


def sandboxed() -> WorkflowRunner:
    return SandboxedWorkflowRunner(restrictions=SandboxRestrictions.default.with_passthrough_modules("model"))


def replayer(runner: WorkflowRunner | None = None) -> Replayer:
    """Return what replays every workflow, in the sandbox unless told otherwise."""
    return Replayer(workflows=WORKFLOWS, workflow_runner=runner or sandboxed())


def paths() -> list[Path]:
    return sorted(DIRECTORY.glob("*.json"))


def load(path: Path) -> WorkflowHistory:
    body = json.loads(path.read_text())
    workflow_id = body["events"][0]["workflowExecutionStartedEventAttributes"]["workflowId"]
    return WorkflowHistory.from_json(workflow_id, body)


def save(name: str, history: WorkflowHistory) -> Path:
    """Write a history without what differs from machine to machine; one event per line, so that it can be compared."""
    events = [_normalised(event) for event in history.to_json_dict()["events"]]
    lines = ",\n".join(json.dumps(event, sort_keys=True, separators=(",", ":")) for event in events)
    path = DIRECTORY / f"{name}.json"
    path.write_text(f'{{"events":[\n{lines}\n]}}\n')
    return path


def _normalised(value: Any) -> Any:
    if isinstance(value, list):
        return [_normalised(item) for item in value]
    if not isinstance(value, dict):
        return value
    if value.get("kind") == "TASK_QUEUE_KIND_STICKY":
        return {**value, "name": "sticky"}
    return {key: _normalised(item) for key, item in value.items() if key not in _DROPPED}


def foreign_text(path: Path, *words: str) -> list[str]:
    """Return what does not belong into a saved history: the words, and paths of a machine, in payloads too."""
    found: list[str] = []
    for text in _texts(json.loads(path.read_text())):
        found += [word for word in words if word and word in text]
        found += [match[0] for match in _UNIX_PATH.finditer(text)]
    return found


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, list):
        for item in value:
            yield from _texts(item)
    elif isinstance(value, dict):
        for key, item in value.items():
            if key == "data" and isinstance(item, str):
                yield base64.b64decode(item).decode("utf-8", "replace")
            else:
                yield from _texts(item)
    elif isinstance(value, str):
        yield value
