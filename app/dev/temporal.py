"""A Temporal development server on loopback with its state in a file."""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path

from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest
from temporalio.client import Client

from app.dev.ports import LOOPBACK, PortBook
from app.dev.processes import ChildProcess, ProcessFailedError

DEFAULT_NAMESPACE = "default"
_START_ATTEMPTS = 3
_READY_SECONDS = 60.0
_REQUEST_SECONDS = 5.0
_PORT_TAKEN = "address already in use"
_SETTINGS = {
    # The default of 20 polls a second makes a third of all activities wait 40 ms once a burst is used up.
    "history.transferProcessorMaxPollRPS": "2000"
}


class TemporalServer:
    """The server that ``temporal server start-dev`` runs; it starts again where it stopped, or was killed."""

    def __init__(
        self,
        state_directory: Path,
        program: Path,
        ports: PortBook | None = None,
        *,
        namespaces: Sequence[str] = (),
        search_attributes: Mapping[str, str] | None = None,
        dynamic_config: Mapping[str, str] | None = None,
        ui: bool = False,
        synchronous: str = "FULL",
    ) -> None:
        """Prepare a server; nothing runs yet.

        Args:
            state_directory: The database, logs and ports go here.
            program: The ``temporal`` program.
            ports: Where ports come from; ``ports.json`` in the state folder when None.
            namespaces: Temporal namespaces to be there besides ``default``.
            search_attributes: Custom search attributes, name to type.
            dynamic_config: Server settings, key to JSON value.
            ui: Whether to serve the web interface too.
            synchronous: SQLite's pragma. FULL syncs at each commit; OFF is quicker and loses data when the machine
                crashes, not when the server does: for tests only.
        """
        self._directory = state_directory
        self._program = program
        self._ports = ports or PortBook(state_directory / "ports.json")
        self._namespaces = tuple(namespaces)
        self._search_attributes = dict(search_attributes or {})
        self._dynamic_config = {**_SETTINGS, **(dynamic_config or {})}
        self._ui = ui
        self._synchronous = synchronous
        self._chosen: dict[str, int] = {}
        self._child: ChildProcess | None = None

    @property
    def address(self) -> str:
        """``host:port`` for clients, known after ``start``; a restart keeps it unless a stranger took the port."""
        return f"{LOOPBACK}:{self._chosen['temporal']}"

    @property
    def ui_url(self) -> str | None:
        """Address of the web interface, or None without one."""
        return f"http://{LOOPBACK}:{self._chosen['temporal-ui']}" if self._ui else None

    @property
    def child(self) -> ChildProcess | None:
        """The running server."""
        return self._child

    async def start(self) -> None:
        """Start the server and wait until every namespace answers.

        Raises:
            ProcessFailedError: It did not become ready; it is not running then.
        """
        for attempt in range(1, _START_ATTEMPTS + 1):
            # Each time, because a stranger may have taken the port meanwhile; a free one stays as it was.
            self._chosen = await asyncio.to_thread(self._ports.choose, "temporal", "temporal-ui")
            try:
                self._child = await ChildProcess.start(
                    "temporal",
                    self._command(),
                    self._directory / "logs" / "temporal.log",
                    ready=self._ready,
                    deadline=_READY_SECONDS,
                )
                return
            except ProcessFailedError as error:
                if _PORT_TAKEN not in str(error) or attempt == _START_ATTEMPTS:
                    raise

    async def stop(self) -> None:
        """Stop the server."""
        if self._child is not None:
            await self._child.stop()
            self._child = None

    async def kill(self) -> None:
        """End the server with SIGKILL, as a crash does. ``start`` brings it back on the same port with its state."""
        if self._child is not None:
            await self._child.kill()
            self._child = None

    def _command(self) -> list[str | Path]:
        self._directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        command: list[str | Path] = [
            self._program,
            # A profile or variable of the user's that names another server is not meant for this one.
            *("--disable-config-file", "--disable-config-env"),
            *("server", "start-dev"),
            *("--ip", LOOPBACK),
            *("--port", str(self._chosen["temporal"])),
            *("--db-filename", self._directory / "temporal.db"),
            *("--sqlite-pragma", "journal_mode=WAL"),
            *("--sqlite-pragma", f"synchronous={self._synchronous}"),
            *("--log-level", "warn"),
        ]
        for namespace in self._namespaces:
            command += ["--namespace", namespace]
        for name, type_ in self._search_attributes.items():
            command += ["--search-attribute", f"{name}={type_}"]
        for key, value in self._dynamic_config.items():
            command += ["--dynamic-config-value", f"{key}={value}"]
        if self._ui:
            command += ["--ui-port", str(self._chosen["temporal-ui"]), "--ui-disable-news-fetch"]
        else:
            command.append("--headless")
        return command

    async def _ready(self) -> bool:
        client = await Client.connect(self.address)
        for namespace in (DEFAULT_NAMESPACE, *self._namespaces):
            await client.workflow_service.describe_namespace(
                DescribeNamespaceRequest(namespace=namespace), timeout=timedelta(seconds=_REQUEST_SECONDS)
            )
        return True
