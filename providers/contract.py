"""The contract every provider keeps.

A provider makes, finds and removes instances. It keeps nothing in memory that another worker would need: whatever a
call has to know is in its arguments or at the backend. All methods may run at the same time, two for the same instance
included, from several processes.

Only the subclasses of ``model.errors.ProviderError`` leave a provider; their docstrings state when a call is tried
again. Error text names the offending field and value, and never holds cloud-init or credentials.
"""

import abc
from dataclasses import dataclass, field

from model.errors import ProviderNotConfiguredError
from model.instance import Instance
from model.provider_health import TargetHealth
from model.proxy import Placement

__all__ = ["Checker", "CreateRequest", "MarkEditor", "Provider", "ProviderNotConfiguredError"]


@dataclass(frozen=True, kw_only=True)
class CreateRequest:
    """What one instance is made from.

    Attributes:
        name: Name of the instance, a DNS label made from the uid; the key of idempotency.
        uid: Mark: uid of the Proxy.
        installation: Mark: this installation.
        namespace: Namespace of the Proxy, for humans who look at the backend.
        proxy_name: Name of the Proxy, likewise.
        placement: Where and from what; free strings that the provider judges.
        cloud_init: The user-data, resolved; never in a log, an error or a ``repr``.
        port: TCP port the proxy listens on.
        spec_hash: Mark: versioned hash of what the instance is made from.
    """

    name: str
    uid: str
    installation: str
    namespace: str
    proxy_name: str
    placement: Placement
    cloud_init: str | None = field(default=None, repr=False)
    port: int
    spec_hash: str


class Checker(abc.ABC):
    """Mix-in of a provider that can tell whether its backend is usable, without touching any instance."""

    @abc.abstractmethod
    async def check(self) -> list[TargetHealth]:
        """Return one verdict per target, in a stable order, cancelled promptly. A target that fails is a verdict.

        Raises:
            TransientError: Only by the bounds around a provider, when there was no verdict in time.
        """


class MarkEditor(abc.ABC):
    """Mix-in of a provider whose backend lets the marks of an existing instance be changed."""

    @abc.abstractmethod
    async def write_marks(self, provider_id: str, incarnation: str, installation: str, spec_hash: str) -> None:
        """Add our marks to an instance that the reference operator made. Idempotent.

        Args:
            provider_id: Which instance.
            incarnation: Which one of that name.
            installation: The mark to write.
            spec_hash: The mark to write; "" leaves it as it is.

        Raises:
            NotFoundError: There is no such incarnation.
            AccessDeniedError: The backend refused our credentials.
            TransientError: Anything else.
        """

    @abc.abstractmethod
    async def remove_marks(self, provider_id: str, incarnation: str) -> None:
        """Take all our marks off, so that nothing lists, adopts or collects the instance again. Idempotent.

        What is absent, or is another incarnation, counts as done.

        Raises:
            AccessDeniedError: The backend refused our credentials.
            TransientError: Anything else.
        """


class Provider(abc.ABC):
    """The least a backend must do; what some can do besides is ``checker`` and ``mark_editor``."""

    @property
    def checker(self) -> Checker | None:
        """What checks the backend, or None where that cannot be done."""
        return self if isinstance(self, Checker) else None

    @property
    def mark_editor(self) -> MarkEditor | None:
        """What changes marks, or None where the backend does not allow it."""
        return self if isinstance(self, MarkEditor) else None

    @abc.abstractmethod
    async def create(self, request: CreateRequest) -> Instance:
        """Make the instance, or adopt the one that is there. Idempotent by ``request.name``.

        All marks are written by the creating call itself. A call that was cut off at any point, the death of its
        process included, is completed by the next one, and never leaves two instances. It returns once the backend has
        accepted the request; ``get`` tells when the instance runs.

        Returns:
            The instance with its **own** marks: an adopted one carries the spec hash it was made with, which may differ
            from the request's. ``get`` never answers ``NotFoundError`` for it until it is gone.

        Raises:
            NameTakenError: An instance of that name carries another uid or installation; nothing was touched. One with
                our uid and no installation mark is ours: it is adopted and gets the mark where the backend allows it.
            QuotaExceededError: No capacity now.
            PermanentError: The request can never be met; the message names the field and its value.
            AccessDeniedError: The backend refused our credentials.
            TransientError: Anything else, an earlier instance of that name still going away included.
        """

    @abc.abstractmethod
    async def find(self, name: str) -> Instance | None:
        """Return the instance of that name, wherever an earlier attempt may have landed, or None when there is none.

        The caller compares the marks; the instance may belong to somebody else.

        Raises:
            TransientError: Some place could not be asked, so that None would be a guess.
            AccessDeniedError: The backend refused our credentials.
        """

    @abc.abstractmethod
    async def get(self, provider_id: str) -> Instance:
        """Return the instance as the backend knows it now; marks and creation time are read back, never remembered.

        ``RUNNING`` comes only with an address that clients and probes reach, ``STOPPED`` only when the instance will
        not come back by itself. While a delete is under way the instance is still returned.

        Raises:
            NotFoundError: The instance is gone, and only then.
            PermanentError: The id is malformed or names a place that is not in the config any more.
            AccessDeniedError: The backend refused our credentials.
            TransientError: Cannot tell.
        """

    @abc.abstractmethod
    async def delete(self, provider_id: str, incarnation: str) -> None:
        """Start to remove the instance with everything ``create`` made. Idempotent; what is absent counts as removed.

        Returns before the instance is gone; ``get`` shows it until then, and further calls push on.

        Args:
            provider_id: Which instance.
            incarnation: Which one of that name; an instance of another incarnation is spared and the call succeeds.
                "" stands for any incarnation.

        Raises:
            PermanentError: The id is malformed.
            AccessDeniedError: The backend refused our credentials.
            TransientError: Anything else.
        """

    @abc.abstractmethod
    async def list_managed(self) -> list[Instance]:
        """Return all instances that carry our managed mark, of whatever installation.

        ``Instance.installation`` is filled in from the mark ("" where it is missing): callers must filter by it before
        they act on anything in the list.

        Raises:
            TransientError: Rather than a list the provider cannot vouch for; the message names what was unreadable.
            AccessDeniedError: The backend refused our credentials.
        """

    @abc.abstractmethod
    async def close(self) -> None:
        """Give back connections. Instances are left alone; no other method is called afterwards."""
