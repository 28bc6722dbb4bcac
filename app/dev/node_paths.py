"""Names and folders of one node on this machine."""

import ipaddress
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class NodePaths:
    """Everything by which what a node puts on the machine is found again.

    Attributes:
        number: Which of the machine's nodes this is.
        state: The node's own folder, absolute.
        run: Folder for sockets, whose paths may be 107 bytes long.
    """

    number: int
    state: Path
    run: Path

    @property
    def bridge(self) -> str:
        """Interface of the Pods' network, at most 15 characters; also the name of that network."""
        return f"egress-node{self.number}"

    @property
    def network(self) -> ipaddress.IPv4Network:
        """Addresses of node and Pods."""
        return ipaddress.IPv4Network(f"10.214.{self.number}.0/24")

    @property
    def gateway(self) -> ipaddress.IPv4Interface:
        """The bridge's own address, which is the node's."""
        return ipaddress.IPv4Interface(f"{self.network[1]}/{self.network.prefixlen}")

    @property
    def socket(self) -> Path:
        """Socket of containerd."""
        return self.run / "containerd.sock"

    @property
    def containerd_state(self) -> Path:
        """Folder of containerd for what runs."""
        return self.run / "containerd"

    @property
    def containerd_root(self) -> Path:
        """Folder of containerd for images and containers."""
        return self.state / "containerd"

    @property
    def kubelet(self) -> Path:
        """The kubelet's folder: volumes of Pods."""
        return self.state / "kubelet"

    @property
    def network_addresses(self) -> Path:
        """Which Pod has which address."""
        return self.state / "addresses"

    @property
    def pod_logs(self) -> Path:
        """What containers wrote."""
        return self.state / "pod-logs"

    @property
    def disposable(self) -> tuple[Path, ...]:
        """Folders that mean nothing once the node is stopped; configuration and logs of the programs stay."""
        return (self.containerd_root, self.kubelet, self.network_addresses, self.pod_logs, self.run)
