"""What the demo needs beside the stack: kubectl as a user runs it, a proxy of somebody else's, a lease client."""

import asyncio
import contextlib
import json
import os
import shlex
import ssl
import sys
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from app.dev.ports import LOOPBACK, PortBook
from app.dev.processes import ChildProcess
from app.dev.report import progress, say
from app.dev.stack import RunningStack
from model.errors import EgressProxiesError
from providers.local import software

_REQUEST_SECONDS = 15.0
_EXTERNAL_PROXY_SECONDS = 30.0
_MAX_FILES = 1024


class DemoFailedError(EgressProxiesError):
    """Something did not happen that the demo shows."""


class Kubectl:
    """Runs kubectl and shows command and output, as they would look in a terminal."""

    def __init__(self, stack: RunningStack) -> None:
        self._program = stack.kubectl
        # What kubectl remembers of another cluster on the same port must not mislead it.
        cache = {"KUBECACHEDIR": str(stack.kubeconfig.parent / "kubectl-cache")}
        self._environment = {**os.environ, "KUBECONFIG": str(stack.kubeconfig), **cache}

    async def __call__(self, *arguments: str, deadline: float = 90.0) -> str:
        """Run a command that must succeed and return its output.

        Raises:
            DemoFailedError: It failed, or did not end in time.
        """
        command = shlex.join(["kubectl", *arguments])
        say(f"    $ {command}")
        process = await asyncio.create_subprocess_exec(
            self._program,
            *arguments,
            env=self._environment,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            # A Ctrl-C in the terminal reaches us alone.
            start_new_session=True,
        )
        try:
            async with asyncio.timeout(deadline):
                output = (await process.communicate())[0].decode("utf-8", "replace")
        except TimeoutError:
            raise DemoFailedError(f"`{command}` did not end within {deadline:.0f} s") from None
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        for line in output.splitlines():
            progress(line)
        if process.returncode != 0:
            raise DemoFailedError(f"`{command}` ended with code {process.returncode}")
        return output


@dataclass(frozen=True, kw_only=True)
class Answer:
    """An HTTP answer; ``body`` is empty where there was none."""

    status: int
    body: dict[str, Any]


class Crawler:
    """Talks to the lease API, and to sites through a proxy, and shows both."""

    def __init__(self, api_url: str, authority: Path) -> None:
        self._api_url = api_url
        self._tls = ssl.create_default_context(cafile=str(authority))

    async def ask(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, *, quiet: bool = False
    ) -> Answer:
        """Send one request to the lease API.

        Raises:
            aiohttp.ClientError: It could not be reached.
            TimeoutError: It did not answer.
        """
        async with (
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=_REQUEST_SECONDS)) as session,
            session.request(method, self._api_url + path, json=body) as response,
        ):
            text = await response.text()
        if not quiet:
            shown = f" {json.dumps(body)}" if body is not None else ""
            progress(f"{method} {self._api_url}{path}{shown}")
            progress(f"-> {response.status} {text.strip()}".rstrip())
        return Answer(status=response.status, body=json.loads(text) if text else {})

    async def fetch(self, url: str, proxy_url: str) -> str:
        """Return a page that was fetched through a proxy: for an https URL, by CONNECT and with TLS end to end.

        Raises:
            DemoFailedError: The site did not answer 200.
            aiohttp.ClientError: The proxy or the site could not be reached.
            TimeoutError: They did not answer.
        """
        async with (
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=_REQUEST_SECONDS)) as session,
            session.get(url, proxy=proxy_url, ssl=self._tls) as response,
        ):
            if response.status != 200:
                raise DemoFailedError(f"{url} answered {response.status} through {proxy_url}")
            return await response.text()


@contextlib.asynccontextmanager
async def somebody_elses_proxy(directory: Path, ports: PortBook) -> AsyncIterator[tuple[ChildProcess, int]]:
    """Run a forward proxy (proxy.py) that the system knows nothing of while the body runs; gives its port too."""
    port = (await asyncio.to_thread(ports.choose, "external-proxy"))["external-proxy"]
    config = await asyncio.to_thread(_write_config, directory, port)

    async def listens() -> bool:
        _, writer = await asyncio.open_connection(LOOPBACK, port)
        writer.close()
        return True

    # -P: no folder of the machine gets in front of the installed packages.
    program = Path(software.__file__).with_name("forward_proxy.py")
    command: list[str | Path] = [sys.executable, "-P", program, "--serve", config]
    log = directory / "external-proxy.log"
    child = await ChildProcess.start("external proxy", command, log, ready=listens, deadline=_EXTERNAL_PROXY_SECONDS)
    try:
        yield child, port
    finally:
        await child.stop()


def _write_config(directory: Path, port: int) -> Path:
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    config = {
        "address": LOOPBACK,
        "port": port,
        "outgoingAddress": "",
        "folder": str(directory.resolve()),
        "maxFiles": _MAX_FILES,
    }
    path = directory / "config.json"
    path.write_text(json.dumps(config))
    return path
