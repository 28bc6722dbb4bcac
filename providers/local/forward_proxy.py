"""A forward proxy in one process, made of the parts of the PyPI package ``proxy.py``.

Run by path with ``--serve`` and the JSON file that ``providers.local.software.proxy_py_config`` writes. It imports
nothing of this project, so that it starts fast and runs from anywhere.

``python -m proxy`` is a parent with a child that does the work: a kill of the parent would leave the child and its
port, and its event loop stands still while one target does not answer a connect. Here is one process, a thread per
connection, and no work while nothing happens.
"""

import functools
import ipaddress
import json
import resource
import socket
import sys
import threading
from typing import Any

import proxy.core.connection.server as upstream
from proxy.common.flag import FlagParser
from proxy.core.work import start_threaded_work
from proxy.http import HttpProtocolHandler

STACK_BYTES = 512 * 1024
BACKLOG = 512
CONNECT_TIMEOUT = 10.0
IDLE_TIMEOUT = 300
METADATA_SERVERS = ("100.100.100.200", "168.63.129.16", "192.0.0.192")
"""Those of clouds that are not at the link-local 169.254.169.254: Alibaba, Azure, Oracle."""
HIDDEN_HEADERS = "via,forwarded,x-forwarded-for"


def main(path: str) -> None:
    """Serve until the process is ended."""
    with open(path, "rb") as file:
        config = json.load(file)
    _limit_files(config["maxFiles"])
    threading.stack_size(STACK_BYTES)
    if config["outgoingAddress"]:
        upstream.new_socket_connection = functools.partial(connect_from, config["outgoingAddress"])
    flags = _flags(config["folder"])
    flags.work_klass = HttpProtocolHandler
    with socket.create_server((config["address"], config["port"]), backlog=BACKLOG) as listener:
        while True:
            connection, client = listener.accept()
            try:
                start_threaded_work(flags, connection, client)
            except RuntimeError:
                # No thread to be had: this client is refused, the others are served on.
                connection.close()


def connect_from(outgoing_address: str, address: tuple[str, int], **_options: Any) -> socket.socket:
    """Connect to a target from the proxy's own address; targets on this machine itself are refused.

    Raises:
        OSError: No address of the target could be connected to.
    """
    failure = OSError(f"{address[0]} has no address that is allowed")
    for *_, target in socket.getaddrinfo(*address, socket.AF_INET, socket.SOCK_STREAM):
        host = ipaddress.IPv4Address(target[0])
        if host.is_loopback or host.is_link_local or host.is_unspecified or str(host) in METADATA_SERVERS:
            continue
        try:
            return socket.create_connection((str(host), address[1]), CONNECT_TIMEOUT, (outgoing_address, 0))
        except OSError as error:
            failure = error
    raise failure


def _flags(folder: str) -> Any:
    # CRITICAL: what proxy.py logs below that can hold a client's credentials.
    arguments = ["--threaded", "--num-acceptors", "1", "--num-workers", "1", "--log-level", "CRITICAL"]
    arguments += ["--timeout", str(IDLE_TIMEOUT), "--disable-headers", HIDDEN_HEADERS]
    arguments += ["--data-dir", folder, "--cache-dir", folder]
    return FlagParser.initialize(arguments)


def _limit_files(number: int) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (number, hard))


if __name__ == "__main__":
    main(sys.argv[2])
