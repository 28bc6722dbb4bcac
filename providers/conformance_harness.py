"""What a provider brings along to be run against the conformance suite, and what the suite asks of it.

A harness stands for one backend, real or faked, with as many worker processes in front of it as the suite wants. It
looks at the backend itself, never through the provider.
"""

import abc
import asyncio
from collections.abc import Awaitable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from model.instance import Instance
from model.names import instance_name
from model.proxy import Placement
from providers.contract import CreateRequest, Provider

OURS = "conformance-ours"
"""The installation the suite acts for."""
THEIRS = "conformance-theirs"
CLOUD_INIT_SENTINEL = "S3ntinel-of-cloud-init"


class Operation(StrEnum):
    """The operations whose conversation with the backend can break."""

    CREATE = "create"
    FIND = "find"
    GET = "get"
    DELETE = "delete"
    LIST = "list"


class FaultWay(StrEnum):
    """How one step of a conversation with the backend breaks, once."""

    REFUSED = "refused"
    """The step fails before it took effect."""
    ANSWER_LOST = "answer lost"
    """The step takes effect, and its caller sees a failure."""
    PROCESS_DIES = "process dies"
    """The worker process ends when the step is due; a fresh one goes on."""
    HANGS = "hangs"
    """The step stands still past the deadline of the call, and may still take effect afterwards."""
    RUBBISH = "rubbish"
    """The backend answers something that nobody can read."""


@dataclass(frozen=True)
class FaultPoint:
    """One way in which one step of an operation breaks; ``step`` names it in the harness's own words."""

    operation: Operation
    step: str
    way: FaultWay

    def __str__(self) -> str:
        return f"{self.operation}: {self.step}: {self.way}"


@dataclass
class Fault:
    """A fault that was planted.

    Attributes:
        happened: Whether the step was reached; a fault that is never reached proves nothing.
    """

    happened: bool = False


class Stranger(StrEnum):
    """Whose an instance of our name may be, by its marks."""

    OTHER_UID = "another uid"
    OTHER_INSTALLATION = "another installation"
    UNMARKED = "no marks at all"
    OF_THE_REFERENCE = "our uid and no installation"
    """Ours: the reference operator writes no installation mark and no spec hash."""


class ProviderHarness(abc.ABC):
    """One backend for one test; the fixture that makes it removes everything afterwards, its providers included.

    Attributes:
        name: The provider in reports.
        takes_cloud_init: Whether a create may carry cloud-init; otherwise it must be refused as permanent.
        malformed_ids: Ids that no such provider ever gave out.
        secrets: Credentials in use, which no log and no error may show.
        deadline_seconds: What a call is given before the suite takes it as hanging; more than a sound one needs.
        patience_seconds: How long the suite waits for something that comes by itself.
    """

    name: str
    takes_cloud_init: bool = True
    malformed_ids: Sequence[str] = ("", "nonsense", "a/b/c/d/e/f", "../../etc/passwd", "x\n")
    secrets: Sequence[str] = ()
    deadline_seconds: float = 5.0
    patience_seconds: float = 60.0

    @abc.abstractmethod
    def provider(self) -> Provider:
        """Return a new provider object, as another worker process would have it; bare, without limits around it."""

    def request(self, uid: str = "uid-a", **changes: Any) -> CreateRequest:
        """Return a request that this backend can meet; override for what it needs in its placement."""
        values: dict[str, Any] = {
            "name": instance_name(uid),
            "uid": uid,
            "installation": OURS,
            "namespace": "conformance",
            "proxy_name": "one",
            "placement": Placement(),
            "cloud_init": CLOUD_INIT_SENTINEL if self.takes_cloud_init else None,
            "port": 3128,
            "spec_hash": "v1-a",
        }
        return CreateRequest(**{**values, **changes})

    @abc.abstractmethod
    def impossible_requests(self) -> Sequence[tuple[CreateRequest, str]]:
        """Return requests that can never be met, each with a word its error must name, such as the field."""

    async def make_run(self, instance: Instance) -> None:  # noqa: B027 - most backends need nothing here
        """Bring it about that the created instance runs, where the backend does not do so by itself."""

    @abc.abstractmethod
    async def stop(self, instance: Instance) -> None:
        """Make the instance stop for good, as a crash or a preemption does."""

    @abc.abstractmethod
    async def vanish(self, instance: Instance) -> None:
        """Take the instance away behind the provider's back, with everything that belongs to it."""

    @abc.abstractmethod
    async def make_strangers(self, instance: Instance, stranger: Stranger) -> None:
        """Change the marks on the instance; ``THEIRS`` is the other installation."""

    @abc.abstractmethod
    async def instances_of(self, name: str) -> int:
        """Return how many instances of that name the backend really has, whatever their state and marks."""

    async def leftovers(self, name: str) -> Sequence[str]:
        """Return what else that name's creates have left: disks, volumes, addresses, configuration."""
        return ()

    @abc.abstractmethod
    def broken(self, point: FaultPoint) -> AbstractAsyncContextManager[Fault]:
        """Plant a fault of any way but ``PROCESS_DIES`` for calls made inside, whichever provider object makes them.

        It happens once. At the end it is taken out, and what hangs is let go on.
        """

    async def die_at(self, point: FaultPoint, subject: CreateRequest | Instance) -> None:
        """Run the operation in a worker that ends when the step is due.

        As it stands here: the step hangs and its caller is thrown away, which is all that a backend behind a
        connection sees of a death. Override where steps are taken by the process itself.
        """
        async with self.broken(replace(point, way=FaultWay.HANGS)) as fault:
            call = asyncio.ensure_future(perform(self.provider(), point.operation, subject))
            await asyncio.wait([call], timeout=self.deadline_seconds)
            call.cancel()
            await asyncio.gather(call, return_exceptions=True)
            assert fault.happened, f"{point} was never reached"

    @abc.abstractmethod
    def backend_down(self) -> AbstractAsyncContextManager[None]:
        """Make the backend unusable for every call made inside."""


def perform(provider: Provider, operation: Operation, subject: CreateRequest | Instance) -> Awaitable[Any]:
    """Return the call of one operation on what is meant by ``subject``."""
    if operation is Operation.LIST:
        return provider.list_managed()
    if operation is Operation.FIND:
        return provider.find(subject.name)
    if isinstance(subject, CreateRequest):
        assert operation is Operation.CREATE, f"{operation} needs an instance"
        return provider.create(subject)
    if operation is Operation.GET:
        return provider.get(subject.provider_id)
    assert operation is Operation.DELETE, f"{operation} needs a request"
    return provider.delete(subject.provider_id, subject.incarnation)
