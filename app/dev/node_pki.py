"""Who the programs of a node are to the API server, and what the kubelet shows to its clients."""

import ipaddress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from app.dev.pki import KeyPair, issue, key_pair


@dataclass(frozen=True, kw_only=True)
class NodePki:
    """Certificates of one start of a node.

    Attributes:
        kubelet: Client certificate of the group system:nodes, and the certificate the kubelet serves with.
        scheduler: Client certificate of system:kube-scheduler.
    """

    kubelet: KeyPair
    scheduler: KeyPair


def issue_node_pki(directory: Path, authority: KeyPair, node: str, address: ipaddress.IPv4Address) -> NodePki:
    """Make the certificates anew, because the address may be another one at each start.

    Args:
        directory: Made when missing, readable for its owner alone.
        authority: Signs them.
        node: Name of the Node object. The Node authorizer knows a kubelet by ``system:node:<name>``:
            https://kubernetes.io/docs/reference/access-authn-authz/node/
        address: Where the API server reaches the kubelet.
    """
    now = datetime.now(UTC)
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    pki = NodePki(kubelet=key_pair(directory, "kubelet"), scheduler=key_pair(directory, "scheduler"))
    client, server = ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH
    kubelet = [
        x509.SubjectAlternativeName([x509.IPAddress(address), x509.DNSName(node)]),
        x509.ExtendedKeyUsage([client, server]),
    ]
    issue(pki.kubelet, authority, _name(f"system:node:{node}", "system:nodes"), kubelet, now)
    issue(pki.scheduler, authority, _name("system:kube-scheduler"), [x509.ExtendedKeyUsage([client])], now)
    return pki


def _name(common_name: str, organization: str | None = None) -> x509.Name:
    attributes = [x509.NameAttribute(NameOID.COMMON_NAME, common_name)]
    if organization is not None:
        attributes.insert(0, x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization))
    return x509.Name(attributes)
