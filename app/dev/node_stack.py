"""A whole small cluster on this machine: control plane, node, our kinds and the project's image of squid."""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

from app.dev import binaries, images
from app.dev.kubernetes import ControlPlane
from app.dev.kubernetes_crds import apply_crds
from app.dev.node import Node
from app.dev.node_machine import why_not_ready
from model.errors import ConfigurationError


@dataclass(frozen=True, kw_only=True)
class RunningNode:
    """A cluster with one node.

    Attributes:
        kubeconfig: File with full rights.
        squid_image: Image for the ``kubernetes`` provider; it is on the node and in no registry.
        address: Where Pods reach this machine: what a test offers to them listens here.
        containerd_socket: For ``ctr --address=... --namespace=k8s.io``.
        control_plane: To look at, or to kill.
        node: To look at, or to kill.
    """

    kubeconfig: Path
    squid_image: str
    address: str
    containerd_socket: Path
    control_plane: ControlPlane
    node: Node


@contextlib.asynccontextmanager
async def running_node(state_directory: Path, *, fsync: bool = True) -> AsyncIterator[RunningNode]:
    """Run a cluster with a node while the body runs; Pods, network and mounts are gone afterwards.

    Install and build what it needs first, with ``app.dev.node_machine.make_ready`` or ``make node``::

        reason = await make_ready()
        if reason is None:
            async with running_node(Path(".dev/cluster").absolute()) as cluster:
                ...  # kubectl --kubeconfig=<cluster.kubeconfig> get nodes

    Args:
        state_directory: Objects of the cluster survive in it; its absolute path has at most 67 bytes.
        fsync: As for ``ControlPlane``.

    Raises:
        ConfigurationError: This machine cannot host a node, or not yet; the message says what to do.
        ProcessFailedError: A program did not become ready.
        CommandFailedError: The machine refuses a bridge, a rule or an image.
    """
    reason = await asyncio.to_thread(why_not_ready)
    made = await asyncio.to_thread(images.find)
    if reason is not None or made is None:
        raise ConfigurationError(reason or "the images were removed just now: run `make node`")
    programs = await binaries.control_plane(os.environ, build_controller_manager=True)
    control_plane = ControlPlane(state_directory / "kubernetes", programs, fsync=fsync)
    node = Node(control_plane, state_directory / "node", await binaries.node(os.environ), made.archives)
    async with contextlib.AsyncExitStack() as cleanup:
        cleanup.push_async_callback(control_plane.stop)
        await control_plane.start()
        await apply_crds(control_plane.kubeconfig, binaries.kubectl())
        cleanup.push_async_callback(node.stop)
        await node.start()
        yield RunningNode(
            kubeconfig=control_plane.kubeconfig,
            squid_image=images.SQUID_IMAGE,
            address=node.address,
            containerd_socket=node.paths.socket,
            control_plane=control_plane,
            node=node,
        )
