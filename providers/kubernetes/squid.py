"""How squid is configured and started in a Pod.

It runs from any image with a shell and squid, without root, without a capability and with a read-only root: all that
is written lies in ``FOLDER``.
"""

FOLDER = "/tmp"  # noqa: S108 - an emptyDir of the Pod
USER_ID = 13
"""``proxy`` in Debian and Ubuntu."""
MAX_FILE_DESCRIPTORS = 4096
"""About two for each tunnel."""

# squid sizes its tables by the limit it finds, and a container runtime's can be 2^30. Backquotes: Kubernetes gives the
# other way to write it a meaning of its own.
START_SCRIPT = f"""set -eu
limit=`ulimit -H -n`
descriptors=$MAX_FILEDESCRIPTORS
if [ "$limit" != unlimited ] && [ "$descriptors" -gt "$limit" ]; then
    echo "file descriptors lowered from $descriptors to $limit, the hard limit of this container" >&2
    descriptors=$limit
fi
ulimit -n "$descriptors"
printf '%smax_filedescriptors %s\\n' "$SQUID_CONFIG" "$descriptors" >{FOLDER}/squid.conf
exec squid -N -d 1 -f {FOLDER}/squid.conf
"""
"""Reads ``MAX_FILEDESCRIPTORS`` and ``SQUID_CONFIG``. -N: one process, so that signals reach it."""


def squid_config(name: str, port: int) -> str:
    """Return the lines of squid.conf, but for the limit of descriptors.

    Args:
        name: What squid calls itself on its error pages.
        port: Where it listens, on every address.
    """
    lines = [
        f"http_port {port}",
        f"visible_hostname {name}",
        # The node's own services and a cloud's metadata server stay out of reach.
        "acl machine_itself dst 0.0.0.0/8 127.0.0.0/8 169.254.0.0/16 ::/128 ::1/128 fe80::/10",
        # The metadata servers that are not at 169.254.169.254: Alibaba, Azure, Oracle, AWS and Google over IPv6.
        "acl machine_itself dst 100.100.100.200 168.63.129.16 192.0.0.192 fd00:ec2::254 fd20:ce::254",
        "http_access deny manager",
        "http_access deny machine_itself",
        "http_access allow all",
        "via off",
        "forwarded_for delete",
        # Messages go to the container's log (-d); who visits what is not written down.
        "cache_log /dev/null",
        "access_log none",
        "cache_store_log none",
        "logfile_rotate 0",
        "cache deny all",
        "cache_mem 0",
        "memory_pools off",
        "client_db off",
        # A pid file would outlive a kill -9, for the folder is kept while the Pod lives.
        "pid_filename none",
        "coredump_dir none",
        "pinger_enable off",
        "shutdown_lifetime 1 seconds",
    ]
    return "\n".join(lines) + "\n"
