"""Runs a cluster with a node until it is killed: ``python -m tests.support.node_owner FOLDER``."""

import asyncio
import json
import sys
from pathlib import Path

from app.dev.node_stack import running_node


async def own(directory: Path) -> None:
    """Start it, say where it is in one line of JSON, and wait."""
    async with running_node(directory, fsync=False) as cluster:
        facts = {"kubeconfig": str(cluster.kubeconfig), "number": cluster.node.paths.number}
        print(json.dumps(facts), flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(own(Path(sys.argv[1])))
