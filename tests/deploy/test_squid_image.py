"""The entrypoint of the squid image; the image itself runs on the real node in tests/app/dev/test_node.py."""

import os
import subprocess
from pathlib import Path

import pytest

from app.dev.images import IMAGE_DIRECTORY
from providers.local import software
from providers.local.records import InstanceRecord

ENTRYPOINT = IMAGE_DIRECTORY / "squid" / "entrypoint.sh"
CONFIG = IMAGE_DIRECTORY / "squid" / "squid.conf"


@pytest.fixture
def path(tmp_path: Path) -> str:
    """A PATH on which squid prints the config it would run with, and its limit."""
    squid = tmp_path / "squid"
    squid.write_text('#!/bin/sh\nwhile [ "$1" != -f ]; do shift; done\ncat "$2"\nrm "$2"\nulimit -n\n')
    squid.chmod(0o755)
    return f"{tmp_path}:{os.environ['PATH']}"


def start(path: str, command: str = 'exec "$0"', **environment: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        ["/bin/sh", "-c", command, str(ENTRYPOINT)],
        env={"PATH": path, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )


def test_port_and_descriptors_are_taken_from_the_environment(path: str) -> None:
    done = start(path, PROXY_PORT="8080", MAX_FILEDESCRIPTORS="512", HOSTNAME="proxy-a")
    assert done.stdout.splitlines() == [
        "http_port 8080",
        "max_filedescriptors 512",
        "visible_hostname proxy-a",
        "include /etc/squid/egress-proxy.conf",
        "512",
    ]
    assert done.stderr == ""


def test_without_an_environment_there_are_defaults(path: str) -> None:
    done = start(path, 'ulimit -n 5000; exec "$0"')
    assert {"http_port 3128", "max_filedescriptors 4096", "4096"} <= set(done.stdout.splitlines())


def test_a_low_hard_limit_is_told(path: str) -> None:
    done = start(path, 'ulimit -n 256; exec "$0"')
    assert {"max_filedescriptors 256", "256"} <= set(done.stdout.splitlines())
    assert "MAX_FILEDESCRIPTORS lowered from 4096 to 256" in done.stderr


@pytest.mark.parametrize("name", ["PROXY_PORT", "MAX_FILEDESCRIPTORS"])
@pytest.mark.parametrize(
    "value", ["0", "-1", "1e3", "3128\nhttp_access deny all", "99999999999999999999", "007", " 80"]
)
def test_what_is_no_number_is_refused_by_name(path: str, name: str, value: str) -> None:
    done = start(path, **{name: value})
    assert done.returncode == 64
    assert done.stdout == ""
    assert name in done.stderr


@pytest.mark.parametrize("value", ["a\nhttp_access allow manager", "a b", "$(id)", "`id`"])
def test_a_host_name_adds_nothing_to_the_configuration(path: str, value: str) -> None:
    done = start(path, HOSTNAME=value)
    assert (done.returncode, done.stdout) == (64, "")
    assert "HOSTNAME" in done.stderr


def test_it_is_configured_as_the_squids_of_the_local_provider() -> None:
    record = InstanceRecord(
        name="proxy-a",
        managed=True,
        uid="uid",
        installation="test",
        spec_hash="v1-0",
        created_at="2026-01-01T00:00:00+00:00",
        incarnation="1",
        address="203.0.113.7",
        port=3128,
        software="squid",
    )
    of_the_instance = ("http_port", "tcp_outgoing_address", "visible_hostname", "max_filedescriptors", "debug_options")
    local = [line for line in software.squid_config(record).splitlines() if not line.startswith(of_the_instance)]
    image = [line for line in CONFIG.read_text().splitlines() if line and not line.startswith("#")]
    assert sorted(image) == sorted(local)
    # The order of these decides.
    assert [line for line in image if "http_access" in line] == [line for line in local if "http_access" in line]
