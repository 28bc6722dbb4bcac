"""A backend in memory with a provider that keeps the contract, and one that breaks a rule of it on demand."""

import asyncio
import contextlib
import dataclasses
import logging
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from model.errors import NameTakenError, NotFoundError, PermanentError, TransientError
from model.instance import Instance, InstanceState
from model.provider_health import REACHABLE, UNREACHABLE, TargetHealth
from model.proxy import Placement
from providers.conformance import THEIRS, Fault, FaultPoint, FaultWay, Operation, ProviderHarness, Stranger
from providers.contract import Checker, CreateRequest, MarkEditor, Provider

FAULTS = [
    FaultPoint(operation, "call", way)
    for operation in Operation
    for way in FaultWay
    if way is not FaultWay.RUBBISH or operation in (Operation.CREATE, Operation.DELETE)
]


@dataclass
class Backend:
    """Instances by number, as a real one has them; names may occur twice."""

    instances: dict[int, Instance] = field(default_factory=dict)
    unmanaged: set[int] = field(default_factory=set)
    disks: list[str] = field(default_factory=list)
    is_down: bool = False
    fault: tuple[FaultPoint, Fault] | None = None
    released: asyncio.Event = field(default_factory=asyncio.Event)
    made: int = 0

    async def call(self, operation: Operation) -> Any:
        """Break where a fault is planted; return whether the answer gets lost."""
        await asyncio.sleep(0)
        if self.is_down:
            raise TransientError("the backend is down")
        if self.fault is None or self.fault[1].happened or self.fault[0].operation is not operation:
            return False
        point, fault = self.fault
        fault.happened = True
        if point.way is FaultWay.HANGS:
            await self.released.wait()
        if point.way in (FaultWay.REFUSED, FaultWay.RUBBISH):
            raise TransientError("the backend refused or is unreadable")
        return point.way is FaultWay.ANSWER_LOST


class MemoryProvider(Provider, Checker, MarkEditor):
    """Keeps the contract but for ``defect``."""

    def __init__(self, backend: Backend, defect: str = "") -> None:
        self._backend = backend
        self._defect = defect

    def _number(self, name: str) -> int | None:
        return next((number for number, one in self._backend.instances.items() if one.name == name), None)

    async def create(self, request: CreateRequest) -> Instance:
        if request.placement.zone:
            text = "spec.placement.zone: there are none" if self._defect != "silent refusal" else "bad request"
            raise PermanentError(text)
        if self._defect == "logs cloud-init":
            logging.getLogger(__name__).info("making it from %s", request.cloud_init)
        lost = await self._backend.call(Operation.CREATE)
        number = self._number(request.name)
        if number is None or self._defect == "not idempotent":
            instance = self._make(request)
        else:
            self._check_owner(self._backend.instances[number], request)
            if not self._backend.instances[number].installation:
                await self.write_marks(f"memory/{request.name}", str(number), request.installation, "")
            instance = self._backend.instances[number]
        if lost:
            raise TransientError("no answer")
        if self._defect == "own hash forgotten":
            return dataclasses.replace(instance, spec_hash=request.spec_hash)
        return instance

    def _check_owner(self, instance: Instance, request: CreateRequest) -> None:
        if self._defect == "adopts strangers":
            return
        if instance.uid != request.uid or instance.installation not in ("", request.installation):
            raise NameTakenError(f"{instance.name} is another's")

    def _make(self, request: CreateRequest) -> Instance:
        backend = self._backend
        backend.made += 1
        backend.disks.append(request.name)
        instance = Instance(
            provider_id=f"memory/{request.name}",
            incarnation=str(backend.made),
            name=request.name,
            state=InstanceState.RUNNING,
            ip="" if self._defect == "no address" else "127.0.0.9",
            uid=request.uid,
            installation="" if self._defect == "installation unmarked" else request.installation,
            spec_hash=request.spec_hash,
            created_at=datetime.now(None if self._defect == "no zone" else UTC),
        )
        backend.instances[backend.made] = instance
        return instance

    async def find(self, name: str) -> Instance | None:
        try:
            await self._backend.call(Operation.FIND)
        except TransientError:
            if self._defect == "guesses":
                return None
            raise
        number = self._number(name)
        return None if number is None else self._backend.instances[number]

    async def get(self, provider_id: str) -> Instance:
        name = self._name_in(provider_id)
        try:
            if await self._backend.call(Operation.GET):
                raise TransientError("no answer")
        except TransientError:
            if self._defect == "guesses":
                raise NotFoundError("not seen") from None
            raise
        number = self._number(name)
        if number is None:
            raise NotFoundError(provider_id)
        return self._backend.instances[number]

    async def delete(self, provider_id: str, incarnation: str) -> None:
        name = self._name_in(provider_id)
        lost = await self._backend.call(Operation.DELETE)
        number = self._number(name)
        if number is None and self._defect == "delete not idempotent":
            raise TransientError("it is not there")
        if number is not None and (incarnation in ("", str(number)) or self._defect == "spares nothing"):
            del self._backend.instances[number]
            if self._defect != "leaves disks":
                self._backend.disks.remove(name)
        if lost:
            raise TransientError("no answer")

    async def list_managed(self) -> list[Instance]:
        if await self._backend.call(Operation.LIST):
            raise TransientError("no answer")
        everything = self._backend.instances.items()
        hidden = set() if self._defect == "lists everything" else self._backend.unmanaged
        return [instance for number, instance in everything if number not in hidden]

    async def check(self) -> list[TargetHealth]:
        if self._backend.is_down:
            if self._defect == "check fails":
                raise TransientError("the backend is down")
            reason = REACHABLE if self._defect == "check is always good" else UNREACHABLE
            return [TargetHealth(name="memory", ready=reason == REACHABLE, reason=reason, message="it is down")]
        return [TargetHealth(name="memory", ready=True, reason=REACHABLE)]

    async def write_marks(self, provider_id: str, incarnation: str, installation: str, spec_hash: str) -> None:
        number = self._number(self._name_in(provider_id))
        if number is None or (str(number) != incarnation and self._defect != "marks any incarnation"):
            raise NotFoundError(provider_id)
        found = self._backend.instances[number]
        changes = {"installation": installation, "spec_hash": spec_hash or found.spec_hash}
        self._backend.instances[number] = dataclasses.replace(found, **changes)  # type: ignore[arg-type]

    async def remove_marks(self, provider_id: str, incarnation: str) -> None:
        number = self._number(self._name_in(provider_id))
        if number is None or (str(number) != incarnation and self._defect != "unmarks any incarnation"):
            return
        bare = dataclasses.replace(self._backend.instances[number], uid="", installation="", spec_hash="")
        self._backend.instances[number] = bare
        self._backend.unmanaged.add(number)

    async def close(self) -> None:
        pass

    def _name_in(self, provider_id: str) -> str:
        kind, _, name = provider_id.partition("/")
        if kind != "memory" or not name.startswith("proxy-") or "\n" in name:
            error = TransientError if self._defect == "patient with nonsense" else PermanentError
            raise error(f"status.providerID: not {provider_id!r}")
        return name


class MemoryHarness(ProviderHarness):
    """One backend."""

    name = "memory"
    deadline_seconds = 0.2
    patience_seconds = 0.5

    def __init__(self, defect: str = "") -> None:
        self._backend = Backend()
        self._defect = defect

    def provider(self) -> Provider:
        return MemoryProvider(self._backend, self._defect)

    def impossible_requests(self) -> Sequence[tuple[CreateRequest, str]]:
        return [(self.request(placement=Placement(zone="z")), "spec.placement.zone")]

    def _change(self, instance: Instance, **changes: Any) -> None:
        number = int(instance.incarnation)
        self._backend.instances[number] = dataclasses.replace(self._backend.instances[number], **changes)

    async def stop(self, instance: Instance) -> None:
        self._change(instance, state=InstanceState.STOPPED, ip="")

    async def vanish(self, instance: Instance) -> None:
        del self._backend.instances[int(instance.incarnation)]
        self._backend.disks.remove(instance.name)

    async def make_strangers(self, instance: Instance, stranger: Stranger) -> None:
        if stranger is Stranger.OTHER_UID:
            self._change(instance, uid="another")
        elif stranger is Stranger.OTHER_INSTALLATION:
            self._change(instance, installation=THEIRS)
        elif stranger is Stranger.UNMARKED:
            self._change(instance, uid="", installation="", spec_hash="")
            self._backend.unmanaged.add(int(instance.incarnation))
        else:
            self._change(instance, installation="", spec_hash="")

    async def instances_of(self, name: str) -> int:
        return sum(one.name == name for one in self._backend.instances.values())

    async def leftovers(self, name: str) -> Sequence[str]:
        return [disk for disk in self._backend.disks if disk == name]

    @contextlib.asynccontextmanager
    async def broken(self, point: FaultPoint) -> AsyncIterator[Fault]:
        fault = Fault()
        self._backend.fault = (point, fault)
        self._backend.released = asyncio.Event()
        try:
            yield fault
        finally:
            self._backend.released.set()
            self._backend.fault = None

    @contextlib.asynccontextmanager
    async def backend_down(self) -> AsyncIterator[None]:
        self._backend.is_down = True
        yield
        self._backend.is_down = False
