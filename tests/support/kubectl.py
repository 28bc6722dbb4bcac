"""kubectl as a subprocess, the way a user runs it."""

import asyncio
import json
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app.dev import binaries

API_VERSION = "crawl.example.com/v1alpha1"


@dataclass(frozen=True)
class Result:
    """What a command left."""

    returncode: int
    stdout: str
    stderr: str


class Kubectl:
    """kubectl against one cluster and, unless the arguments say otherwise, one namespace."""

    def __init__(self, kubeconfig: Path, namespace: str = "default") -> None:
        self.kubeconfig = kubeconfig
        self.namespace = namespace
        self._program = binaries.kubectl()

    def run(self, *arguments: str, stdin: str | None = None, timeout: float = 60.0) -> Result:
        """Run a command, whatever it answers."""
        command = [
            str(self._program),
            f"--kubeconfig={self.kubeconfig}",
            f"--namespace={self.namespace}",
            # Beside the kubeconfig: what kubectl remembers of another cluster on the same port must not mislead it.
            f"--cache-dir={self.kubeconfig.parent / 'kubectl-cache'}",
            *arguments,
        ]
        done = subprocess.run(command, input=stdin or "", capture_output=True, text=True, timeout=timeout, check=False)
        return Result(done.returncode, done.stdout, done.stderr)

    def __call__(self, *arguments: str, stdin: str | None = None, timeout: float = 60.0) -> str:
        """Run a command that must succeed and return its output."""
        result = self.run(*arguments, stdin=stdin, timeout=timeout)
        assert result.returncode == 0, f"kubectl {' '.join(arguments)}: {result.stderr or result.stdout}"
        return result.stdout

    async def arun(self, *arguments: str, stdin: str | None = None, timeout: float = 60.0) -> Result:
        """Run a command without blocking the event loop."""
        return await asyncio.to_thread(self.run, *arguments, stdin=stdin, timeout=timeout)

    async def acall(self, *arguments: str, stdin: str | None = None, timeout: float = 60.0) -> str:
        """Run a command that must succeed without blocking the event loop, and return its output."""
        return await asyncio.to_thread(self, *arguments, stdin=stdin, timeout=timeout)

    def apply(self, *objects: Mapping[str, Any], arguments: Sequence[str] = ()) -> Result:
        """Run ``kubectl apply`` over some objects."""
        return self.run("apply", *arguments, "-f", "-", stdin="\n".join(json.dumps(body) for body in objects))

    def get(self, kind: str, name: str) -> dict[str, Any]:
        """Return one object."""
        body = json.loads(self("get", kind, name, "-o", "json"))
        assert isinstance(body, dict)
        return body


def proxy(name: str, spec: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return a Proxy to apply; ``spec`` None leaves it out."""
    body: dict[str, Any] = {"apiVersion": API_VERSION, "kind": "Proxy", "metadata": {"name": name}}
    return body if spec is None else body | {"spec": dict(spec)}
