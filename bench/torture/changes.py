"""What people do to the changing part of the fleet meanwhile: create, edit, rotate, delete, over and over."""

import asyncio
import json
import random
from collections import Counter

from bench import kubectl
from bench.installation import PROXY_PORT
from bench.results import BenchError
from bench.torture.fleet import CHANGING, Fleet
from model.names import ANNOTATION_ROTATE

MAX_LEASES = 3
_NAMES = [f"changing-{number:02}" for number in range(12)]
_EXTERNALS = ["external-0", "external-1"]
_FEWEST, _MOST = 4, 8
_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.5, 2.5
_OTHER_PORT = PROXY_PORT + 1


class Changes:
    """A person, or a controller, who never rests.

    Attributes:
        done: How many changes of each kind the API server took.
    """

    def __init__(self, fleet: Fleet, hosts: list[str]) -> None:
        """Prepare.

        Args:
            fleet: Where the Proxies are.
            hosts: Addresses at which a proxy answers, for External Proxies.
        """
        self.done: Counter[str] = Counter()
        self._fleet = fleet
        self._hosts = hosts
        self._live: dict[str, int] = {}

    @property
    def live(self) -> list[str]:
        """Names of the Managed Proxies of the changing part that are not being deleted."""
        return list(self._live)

    async def begin(self) -> None:
        """Make the changing part."""
        managed = [self._fleet.managed(name, CHANGING, MAX_LEASES) for name in _NAMES[: (_FEWEST + _MOST) // 2]]
        external = [self._fleet.external(name, self._host(), MAX_LEASES) for name in _EXTERNALS]
        await kubectl.apply(self._fleet.installation, [*managed, *external])
        self._live = dict.fromkeys(_NAMES[: len(managed)], PROXY_PORT)

    async def run(self) -> None:
        """Change something for ever."""
        while True:
            await asyncio.sleep(random.uniform(_SHORTEST_PAUSE, _LONGEST_PAUSE))
            await self._change()

    async def _change(self) -> None:
        possible = [self._edit_port, self._edit_endpoint, self._rotate]
        if len(self._live) < _MOST:
            possible.append(self._create)
        if len(self._live) > _FEWEST:
            possible.append(self._delete)
        await random.choice(possible)()

    async def _create(self) -> None:
        name = random.choice([name for name in _NAMES if name not in self._live])
        body = json.dumps(self._fleet.managed(name, CHANGING, MAX_LEASES))
        try:
            await kubectl.run(self._fleet.installation, "create", "-f", "-", stdin=body)
        except BenchError as error:
            if "AlreadyExists" not in str(error):
                raise
            # Its predecessor of the same name is still being deleted.
            self.done["create too early"] += 1
            return
        self._live[name] = PROXY_PORT
        self.done["create"] += 1

    async def _delete(self) -> None:
        name = random.choice(self.live)
        del self._live[name]
        await kubectl.run(self._fleet.installation, "delete", "px", name, "--wait=false")
        self.done["delete"] += 1

    async def _edit_port(self) -> None:
        name = random.choice(self.live)
        port = _OTHER_PORT if self._live[name] == PROXY_PORT else PROXY_PORT
        self._live[name] = port
        await self._patch(name, {"port": port})
        self.done["edit of a port"] += 1

    async def _rotate(self) -> None:
        name, value = random.choice(self.live), f"{ANNOTATION_ROTATE}={random.getrandbits(32)}"
        await kubectl.run(self._fleet.installation, "annotate", "px", name, value, "--overwrite")
        self.done["rotation"] += 1

    async def _edit_endpoint(self) -> None:
        await self._patch(random.choice(_EXTERNALS), {"endpoint": {"host": self._host()}})
        self.done["edit of an endpoint"] += 1

    async def _patch(self, name: str, spec: dict[str, object]) -> None:
        patch = json.dumps({"spec": spec})
        await kubectl.run(self._fleet.installation, "patch", "px", name, "--type=merge", f"--patch={patch}")

    def _host(self) -> str:
        return random.choice(self._hosts)
