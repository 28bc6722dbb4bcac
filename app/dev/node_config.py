"""What the programs of a node are told."""

import json
from pathlib import Path

import yaml

from app.dev.images import PAUSE_IMAGE
from app.dev.node_paths import NodePaths
from app.dev.pki import KeyPair

CNI_PLUGINS = Path("/usr/lib/cni")
"""Where Debian's package containernetworking-plugins has its programs."""
_CRI = "io.containerd.grpc.v1.cri"


def containerd(paths: NodePaths, cni_config: Path) -> str:
    """Return containerd's configuration, in TOML."""
    return f"""version = 2
root = {_quoted(paths.containerd_root)}
state = {_quoted(paths.containerd_state)}
[grpc]
  address = {_quoted(paths.socket)}
[plugins."io.containerd.internal.v1.opt"]
  path = {_quoted(paths.containerd_root / "opt")}
[plugins."{_CRI}"]
  sandbox_image = "{PAUSE_IMAGE}"
  # Without CAP_SYS_RESOURCE runc may not lower a score, and dies with "can't get final child's PID from pipe".
  restrict_oom_score_adj = true
  # Else they lie in the machine's own folder, where nothing tells whose they are.
  netns_mounts_under_state_dir = true
  [plugins."{_CRI}".cni]
    bin_dir = {_quoted(CNI_PLUGINS)}
    conf_dir = {_quoted(cni_config)}
  [plugins."{_CRI}".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."{_CRI}".containerd.runtimes.runc.options]
      Root = {_quoted(paths.containerd_state / "runc")}
"""


def cni(paths: NodePaths) -> str:
    """Return the configuration of the Pods' network, in JSON.

    The bridge is ours already (``isGateway`` would also make a router of the machine), so Pods reach the machine and
    each other and nothing else.
    """
    addresses = {
        "type": "host-local",
        "dataDir": str(paths.network_addresses),
        "ranges": [[{"subnet": str(paths.network), "gateway": str(paths.gateway.ip)}]],
        "routes": [{"dst": "0.0.0.0/0"}],
    }
    bridge = {"type": "bridge", "bridge": paths.bridge, "isGateway": False, "ipam": addresses}
    return json.dumps({"cniVersion": "0.4.0", "name": paths.bridge, "plugins": [bridge]})


def kubelet(paths: NodePaths, authority: Path, server: KeyPair) -> str:
    """Return the kubelet's configuration, in YAML; its address is the node's, so that several do not collide.

    Args:
        paths: The node.
        authority: Certificate of the authority whose clients it serves.
        server: Certificate it shows.
    """
    address = str(paths.gateway.ip)
    config = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": address,
        "healthzBindAddress": address,
        "tlsCertFile": str(server.certificate),
        "tlsPrivateKeyFile": str(server.key),
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(authority)},
        },
        "authorization": {"mode": "Webhook"},
        "containerRuntimeEndpoint": f"unix://{paths.socket}",
        "podLogsDir": str(paths.pod_logs),
        "volumePluginDir": str(paths.kubelet / "volume-plugins"),
        "failSwapOn": False,
        "failCgroupV1": False,
        "cgroupDriver": "cgroupfs",
        # Containers get their limits; a tree of groups for classes of Pods needs rights that machines withhold.
        "cgroupsPerQOS": False,
        "enforceNodeAllocatable": [],
        "makeIPTablesUtilChains": False,
        # A nearly full disk is the machine owner's business, and images could not be pulled again.
        "imageGCHighThresholdPercent": 100,
        "evictionHard": {
            "imagefs.available": "1%",
            "memory.available": "10Mi",
            "nodefs.available": "1%",
            "nodefs.inodesFree": "1%",
        },
    }
    return yaml.safe_dump(config, sort_keys=False)


def _quoted(path: Path) -> str:
    # A TOML basic string has the same escapes as a JSON string.
    return json.dumps(str(path))
