"""The forward proxies the box can run: their configuration and command lines."""

import ipaddress
import json
import os
import resource
import shutil
import sys
from pathlib import Path

from model.errors import PermanentError
from providers.local.records import InstanceRecord
from providers.local.settings import Software

MAX_FILES = 4096
"""File descriptors per proxy, about two per tunnel. squid sizes its tables by this, so it is never left to the limit of
the machine, which can be 2^30."""

LOG_FILE = "proxy.log"
SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - where shm_open(3) puts named segments on Linux
_MACHINE_ITSELF = "0.0.0.0/8 127.0.0.0/8 169.254.0.0/16 ::/128 ::1/128 fe80::/10"
_METADATA_SERVERS = "100.100.100.200 168.63.129.16 192.0.0.192 fd00:ec2::254 fd20:ce::254"
"""Those that are not at 169.254.169.254: Alibaba, Azure, Oracle, AWS and Google over IPv6."""
_SQUID_FALLBACK = "/usr/sbin/squid"
_PASSED_ON = ("PATH", "PYTHONPATH", "LD_LIBRARY_PATH", "VIRTUAL_ENV", "TZ")


def find_squid() -> str | None:
    """Return the path of squid, or None; ``/usr/sbin`` is often not in the PATH of ordinary users."""
    return shutil.which("squid") or (_SQUID_FALLBACK if os.access(_SQUID_FALLBACK, os.X_OK) else None)


def choose(software: Software) -> Software:
    """Return what a new instance runs.

    Raises:
        PermanentError: squid is asked for and not installed.
    """
    if software is Software.PROXY_PY:
        return software
    if find_squid():
        return Software.SQUID
    if software is Software.AUTO:
        return Software.PROXY_PY
    raise PermanentError("local.software: squid is not installed on this box; install it or use proxy.py")


def config_path(folder: Path, record: InstanceRecord) -> Path:
    """Return the config file of one start."""
    return folder / f"config-{record.incarnation}"


def write_config(folder: Path, record: InstanceRecord) -> None:
    """Write the config file for the start of this incarnation."""
    text = squid_config(record) if record.software == Software.SQUID else proxy_py_config(folder, record)
    config_path(folder, record).write_text(text)


def last_arguments(folder: Path, record: InstanceRecord) -> list[str]:
    """Return the end of the command line, by which the process of this incarnation is found among all others.

    The program in front may lie elsewhere after an upgrade; the options keep an editor on the file from being taken
    for the proxy.
    """
    config = str(config_path(folder, record))
    if record.software != Software.SQUID:
        return ["--serve", config]
    # -N: one process in the foreground, so that its pid is the whole of it. -d 0: fatal errors go to stderr.
    # -n: squid names shared memory by it; two that start at once under one name end each other with "File exists".
    return ["-N", "-d", "0", "-n", service_name(record), "-f", config]


def service_name(record: InstanceRecord) -> str:
    """Return squid's service name: letters and digits, another for each incarnation."""
    return f"egress{record.incarnation}"


def remove_shared_memory(record: InstanceRecord) -> None:
    """Remove what a killed squid left in shared memory; one that ended by itself has left nothing."""
    if record.software == Software.SQUID:
        for segment in SHARED_MEMORY.glob(f"{service_name(record)}-*.shm"):
            segment.unlink(missing_ok=True)


def command(folder: Path, record: InstanceRecord) -> list[str]:
    """Return the command line, the program's absolute path first.

    Raises:
        PermanentError: squid was there when the instance was made and is not any more.
    """
    if record.software == Software.SQUID:
        program = [find_squid() or _missing_squid()]
    else:
        # -P: no folder of the machine gets in front of the installed packages.
        program = [sys.executable, "-P", str(Path(__file__).with_name("forward_proxy.py"))]
    return [*program, *last_arguments(folder, record)]


def environment(folder: Path) -> dict[str, str]:
    """Return the environment of a proxy: the worker's own holds credentials and is not passed on."""
    passed = {key: os.environ[key] for key in _PASSED_ON if key in os.environ}
    return {**passed, "HOME": str(folder), "LANG": "C.UTF-8"}


def outgoing_address(record: InstanceRecord) -> str:
    """Return the address for connections to targets, or "" for the machine's choice.

    A loopback address as source reaches nothing but the machine itself, so it is left to the kernel there.
    """
    return "" if ipaddress.ip_address(record.address).is_loopback else record.address


def squid_config(record: InstanceRecord) -> str:
    """Return squid.conf for one instance.

    Started as root, squid takes the user ``proxy`` once it listens. It then needs no file of ours: it logs to the
    descriptor it inherits, keeps no cache and no pid file, and can therefore not read the box's state either.
    """
    outgoing = outgoing_address(record)
    # From an address that others reach, the services of the machine itself must stay out of reach.
    services = [f"acl machine_itself dst {addresses}" for addresses in (_MACHINE_ITSELF, _METADATA_SERVERS)]
    protect = [*services, "http_access deny machine_itself"] if outgoing else []
    lines = [
        f"http_port {record.address}:{record.port}",
        *([f"tcp_outgoing_address {outgoing}"] if outgoing else []),
        "http_access deny manager",
        *protect,
        "http_access allow all",
        f"visible_hostname {record.name}",
        "pid_filename none",
        "access_log none",
        "cache_store_log none",
        "cache_log /dev/null",
        "debug_options ALL,0",
        "logfile_rotate 0",
        "cache deny all",
        "cache_mem 0",
        "memory_pools off",
        "client_db off",
        "via off",
        "forwarded_for delete",
        "pinger_enable off",
        "coredump_dir none",
        "shutdown_lifetime 1 seconds",
        f"max_filedescriptors {max_files()}",
    ]
    return "\n".join(lines) + "\n"


def proxy_py_config(folder: Path, record: InstanceRecord) -> str:
    """Return the JSON config of ``forward_proxy.py``."""
    config = {
        "address": record.address,
        "port": record.port,
        "outgoingAddress": outgoing_address(record),
        "folder": str(folder / "proxy.py"),
        "maxFiles": max_files(),
    }
    return json.dumps(config)


def max_files() -> int:
    """Return how many file descriptors a proxy gets: ours, or the machine's limit when that is lower."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MAX_FILES if hard == resource.RLIM_INFINITY else min(MAX_FILES, hard)


def _missing_squid() -> str:
    raise PermanentError("local.software: squid was removed from this box; install it again")
