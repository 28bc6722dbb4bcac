"""Brings our kinds to a cluster."""

import asyncio
import time
from pathlib import Path

from model.errors import ConfigurationError

CRD_DIRECTORY = Path(__file__).resolve().parents[2] / "deploy" / "crds"
FIELD_MANAGER = "egress-proxies-dev"


async def apply_crds(kubeconfig: Path, kubectl: Path, *, deadline: float = 60.0) -> None:
    """Apply ``deploy/crds`` and wait until the API server serves the kinds. Applying again changes nothing.

    Args:
        kubeconfig: Which cluster, and as whom.
        kubectl: The program.
        deadline: Seconds for all of it.

    Raises:
        ConfigurationError: The files are missing, or the cluster refused them or did not serve them in time.
    """
    if not any(CRD_DIRECTORY.glob("*.yaml")):
        raise ConfigurationError(f"no CRDs found in {CRD_DIRECTORY}: run from a checkout of the source")
    end = time.monotonic() + deadline
    run = [str(kubectl), f"--kubeconfig={kubeconfig}"]
    files = f"--filename={CRD_DIRECTORY}"
    # Fields of ours that another tool has applied before are taken over: these kinds are this system's own.
    apply = ["apply", "--server-side", "--force-conflicts", f"--field-manager={FIELD_MANAGER}", files]
    await _run([*run, *apply], deadline)
    remaining = max(1.0, end - time.monotonic())
    await _run([*run, "wait", "--for=condition=Established", f"--timeout={remaining:.0f}s", files], remaining + 5)


async def _run(command: list[str], deadline: float) -> None:
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        async with asyncio.timeout(deadline):
            output, _ = await process.communicate()
    except TimeoutError as error:
        raise ConfigurationError(f"kubectl {command[2]} of the CRDs did not end within {deadline:.0f} s") from error
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode != 0:
        text = output.decode("utf-8", "replace").strip()
        raise ConfigurationError(f"kubectl {command[2]} of the CRDs in {CRD_DIRECTORY} failed: {text}")
