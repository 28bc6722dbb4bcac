"""A provider in memory, for what lies around every provider."""

import asyncio
from datetime import UTC, datetime

from model.instance import Instance, InstanceState
from model.proxy import Placement
from providers.config import ProviderEntry, parse_providers
from providers.contract import CreateRequest, Provider


class ScriptedProvider(Provider):
    """Does what the test says; ``gate`` holds every call until it is set."""

    def __init__(self) -> None:
        self.instances: dict[str, Instance] = {}
        self.failure: Exception | None = None
        self.gate = asyncio.Event()
        self.gate.set()
        self.running = 0
        self.most_running = 0
        self.closed = False

    async def create(self, request: CreateRequest) -> Instance:
        await self._answer()
        return self.instances.setdefault(
            request.name, instance(request.name, installation=request.installation, uid=request.uid)
        )

    async def find(self, name: str) -> Instance | None:
        await self._answer()
        return self.instances.get(name)

    async def get(self, provider_id: str) -> Instance:
        await self._answer()
        return self.instances[provider_id]

    async def delete(self, provider_id: str, incarnation: str) -> None:
        await self._answer()

    async def list_managed(self) -> list[Instance]:
        if self.failure:
            raise self.failure
        return list(self.instances.values())

    async def close(self) -> None:
        self.closed = True

    async def _answer(self) -> None:
        assert not self.closed, "called after close"
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        try:
            await self.gate.wait()
            if self.failure:
                raise self.failure
        finally:
            self.running -= 1


def instance(name: str, *, installation: str = "ours", uid: str = "uid") -> Instance:
    return Instance(
        provider_id=name,
        incarnation="1",
        name=name,
        state=InstanceState.RUNNING,
        ip="127.0.0.2",
        uid=uid,
        installation=installation,
        created_at=datetime.now(UTC),
    )


def request(name: str, *, cloud_init: str | None = None) -> CreateRequest:
    return CreateRequest(
        name=name,
        uid="uid",
        installation="ours",
        namespace="default",
        proxy_name=name,
        placement=Placement(),
        cloud_init=cloud_init,
        port=3128,
        spec_hash="v1-a",
    )


def entry(extra: str = "", name: str = "box1") -> ProviderEntry:
    text = (
        f"providers: [{{name: {name}, type: local, "
        f"local: {{addresses: [127.0.0.2], stateDir: /state}}{', ' + extra if extra else ''}}}]"
    )
    return parse_providers(text.encode(), "file", require_local_task_queue=False)[0]
