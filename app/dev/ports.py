"""Loopback ports of the embedded stack's servers, kept between runs."""

import contextlib
import errno
import json
import os
import random
import socket
from collections.abc import Sequence
from pathlib import Path

from model.errors import ConfigurationError

LOOPBACK = "127.0.0.1"

# Below the range from which the kernel takes the local ports of outgoing connections (from 32768 on Linux): a port
# chosen there would now and then be taken by somebody's connection before its server listens.
_LOWEST, _HIGHEST = 20000, 29999
_ATTEMPTS = 500


class PortBook:
    """Ports by name, in a file: a port chosen once is used again while it is free.

    Nobody can hold a port for another program, so a stranger may take one between its choice and its use. Whoever
    starts a server therefore calls ``choose`` again when the server ends with "address already in use".
    """

    def __init__(self, path: Path) -> None:
        """Use the file at ``path``, which need not exist."""
        self._path = path

    def choose(self, *names: str) -> dict[str, int]:
        """Return a free port for each name, all different, and write them down.

        Raises:
            ConfigurationError: No free port was found.
        """
        kept = self._read()
        chosen: dict[str, int] = {}
        with contextlib.ExitStack() as held:
            for name in names:
                chosen[name] = _hold(kept.get(name), held)
        self._write(kept | chosen)
        return chosen

    def _read(self) -> dict[str, int]:
        try:
            kept = json.loads(self._path.read_text())
        except (FileNotFoundError, ValueError):
            # The file is a convenience: an unreadable one costs new ports and is written anew.
            return {}
        if not isinstance(kept, dict):
            return {}
        return {name: port for name, port in kept.items() if isinstance(port, int) and 0 < port < 65536}

    def _write(self, ports: dict[str, int]) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        temporary = self._path.with_name(f"{self._path.name}.{os.getpid()}")
        temporary.write_text(json.dumps(ports, indent=2) + "\n")
        temporary.replace(self._path)


def _hold(preferred: int | None, held: contextlib.ExitStack) -> int:
    candidates: Sequence[int] = random.sample(range(_LOWEST, _HIGHEST + 1), _ATTEMPTS)
    for port in (preferred, *candidates):
        if port is None:
            continue
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        held.callback(listener.close)
        # As servers do: connections of an earlier run that the kernel still remembers do not block the port.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((LOOPBACK, port))
            listener.listen(1)
        except OSError as error:
            if error.errno not in (errno.EADDRINUSE, errno.EACCES):
                raise
            continue
        return port
    raise ConfigurationError(f"no free port found on {LOOPBACK} between {_LOWEST} and {_HIGHEST}: stop other servers")
