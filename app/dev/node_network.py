"""The network of a node: a bridge with an address, and the way from Pods to the API server."""

import ipaddress
import json
import shlex
from contextlib import suppress
from pathlib import Path

from app.dev.commands import CommandFailedError, run

SERVICE_ADDRESS = "10.0.0.1"
"""Where Pods expect the API server: the first address of the service range."""
_IPTABLES = ("iptables", "--wait", "30", "--table", "nat")
# A network of this size or larger (a company's 10.0.0.0/8) contains ours and is not in its way: the longer prefix wins.
_CONTAINING_PREFIX = 15


def bridge_exists(bridge: str) -> bool:
    """Whether an interface of that name is there."""
    return Path("/sys/class/net", bridge).exists()


def in_use(network: ipaddress.IPv4Network) -> bool:
    """Whether the machine has a route or an address that our network would get in the way of.

    Raises:
        CommandFailedError: The routes cannot be listed.
    """
    for route in json.loads(run(["ip", "-json", "-4", "route", "show", "table", "all"])):
        with suppress(ValueError):  # "default"
            other = ipaddress.IPv4Network(route["dst"])
            if other.prefixlen > _CONTAINING_PREFIX and other.overlaps(network):
                return True
    return False


def set_up(bridge: str, gateway: ipaddress.IPv4Interface, api_server_port: int) -> None:
    """Make the bridge, give it the node's address, and lead 10.0.0.1:443 from it to the API server on loopback.

    Raises:
        CommandFailedError: The machine refuses.
    """
    run(["ip", "link", "add", bridge, "type", "bridge"])
    run(["ip", "address", "add", str(gateway), "dev", bridge])
    run(["ip", "link", "set", bridge, "up"])
    # Packets to 127.0.0.0/8 are accepted from this interface alone.
    Path("/proc/sys/net/ipv4/conf", bridge, "route_localnet").write_text("1")
    came_from_a_pod = ["--in-interface", bridge, "--destination", SERVICE_ADDRESS, "--protocol", "tcp"]
    to_the_api_server = ["--jump", "DNAT", "--to-destination", f"127.0.0.1:{api_server_port}"]
    run(
        [*_IPTABLES, "--append", "PREROUTING", *came_from_a_pod, "--match", "tcp", "--dport", "443", *to_the_api_server]
    )


def rules(bridge: str) -> list[str]:
    """Return our rules of a bridge, as ``iptables -S`` lists them.

    Raises:
        CommandFailedError: They cannot be listed.
    """
    return [rule for rule in run([*_IPTABLES, "-S", "PREROUTING"]).splitlines() if f"-i {bridge} " in rule]


def tear_down(bridge: str) -> None:
    """Remove rules, Pods' interfaces and bridge, whatever of them is there.

    Raises:
        CommandFailedError: The machine refuses.
    """
    for rule in rules(bridge):
        run([*_IPTABLES, "--delete", *shlex.split(rule)[1:]])
    if not bridge_exists(bridge):
        return
    for interface in json.loads(run(["ip", "-json", "link", "show", "master", bridge])):
        # It may go by itself meanwhile, together with its Pod's namespace.
        with suppress(CommandFailedError):
            run(["ip", "link", "delete", interface["ifname"]])
    run(["ip", "link", "delete", bridge])
