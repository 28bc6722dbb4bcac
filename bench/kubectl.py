"""kubectl as a subprocess, the way a user runs it."""

import asyncio
import json
from collections.abc import Sequence
from typing import Any

from bench.installation import PROXY_PORT, Installation
from bench.results import BenchError

NAMESPACE = "default"
_DEADLINE_SECONDS = 60.0
_MAX_LEASES = 64


def manifest(name: str, provider: str, probe_url: str) -> dict[str, Any]:
    """Return a Managed Proxy with the defaults, but a target of our own and room for all clients of the load."""
    return {
        "apiVersion": "crawl.example.com/v1alpha1",
        "kind": "Proxy",
        "metadata": {"name": name},
        "spec": {
            "mode": "Managed",
            "provider": provider,
            "port": PROXY_PORT,
            "maxLeases": _MAX_LEASES,
            "attributes": {"provider": provider, "purpose": "bench"},
            "healthCheck": {"probeURL": probe_url},
        },
    }


async def apply(installation: Installation, objects: Sequence[dict[str, Any]]) -> None:
    """Run ``kubectl apply`` once over all objects."""
    await run(installation, "apply", "-f", "-", stdin="\n".join(json.dumps(body) for body in objects))


async def run(installation: Installation, *arguments: str, stdin: str = "") -> str:
    """Run a command and return its output.

    Raises:
        BenchError: It failed or did not end in time.
    """
    process = await asyncio.create_subprocess_exec(
        installation.kubectl,
        f"--kubeconfig={installation.kubeconfig}",
        f"--namespace={NAMESPACE}",
        f"--cache-dir={installation.directory / 'kubectl-cache'}",
        *arguments,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        async with asyncio.timeout(_DEADLINE_SECONDS):
            output, _ = await process.communicate(stdin.encode())
    except TimeoutError:
        raise BenchError(f"kubectl {arguments[0]} did not end within {_DEADLINE_SECONDS:g} s") from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    text = output.decode("utf-8", "replace")
    if process.returncode != 0:
        raise BenchError(f"kubectl {arguments[0]} failed: {text.strip()[:1000]}")
    return text
