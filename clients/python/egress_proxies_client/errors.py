"""What can go wrong, one class for each machine code that a caller can act on."""

from datetime import datetime


class EgressProxiesError(Exception):
    """Root of this client's errors.

    Attributes:
        status: HTTP status of the answer; 0 when there was none.
        code: Machine code of the answer's envelope; "" when there was none.
    """

    def __init__(self, message: str, *, status: int = 0, code: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.code = code


class Unauthorized(EgressProxiesError):
    """The token is missing or wrong."""


class InvalidRequest(EgressProxiesError):
    """The API cannot use the request as it is; sending it again does not help.

    Attributes:
        field: The field or header that is wrong, as the API writes it ("ttlSeconds"); "" when it is none in particular.
    """

    def __init__(self, message: str, *, status: int = 0, code: str = "", field: str = "") -> None:
        super().__init__(message, status=status, code=code)
        self.field = field


class NoMatch(EgressProxiesError):
    """No proxy can be leased now.

    Attributes:
        considered: Proxies that match the selector.
        at_capacity: Those with as many leases as they take.
        in_cooldown: Those that rest from this target.
        unhealthy: Those that are not healthy.
        earliest_available: When time alone makes one of them free, in UTC, if no holder releases or renews before; None
            where waiting does not help.
        retry_after: Seconds to wait before the next try; None where waiting does not help.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int = 0,
        code: str = "",
        considered: int = 0,
        at_capacity: int = 0,
        in_cooldown: int = 0,
        unhealthy: int = 0,
        earliest_available: datetime | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message, status=status, code=code)
        self.considered = considered
        self.at_capacity = at_capacity
        self.in_cooldown = in_cooldown
        self.unhealthy = unhealthy
        self.earliest_available = earliest_available
        self.retry_after = retry_after

    def __str__(self) -> str:
        return (
            f"{self.args[0]} (considered {self.considered}: {self.at_capacity} at capacity, "
            f"{self.in_cooldown} in cooldown, {self.unhealthy} unhealthy)"
        )


class SessionUnavailable(EgressProxiesError):
    """The proxy of a strict session cannot be leased now.

    Attributes:
        retry_after: Seconds to wait before the next try; None where waiting does not help.
    """

    def __init__(self, message: str, *, status: int = 0, code: str = "", retry_after: float | None = None) -> None:
        super().__init__(message, status=status, code=code)
        self.retry_after = retry_after


class UnknownLease(EgressProxiesError):
    """No lease has this id, or it ended too long ago."""


class LeaseExpired(EgressProxiesError):
    """The lease has ended, by its time or by release."""


class LeaseRevoked(EgressProxiesError):
    """The lease's proxy was replaced or deleted since; lease another one."""


class IdempotencyKeyReused(EgressProxiesError):
    """The Idempotency-Key belongs to a request with another body."""


class Unavailable(EgressProxiesError):
    """The API, its broker or the way to it is down for now; the client has already tried again.

    Attributes:
        retry_after: Seconds to wait before the next try, where the API said so.
    """

    def __init__(self, message: str, *, status: int = 0, code: str = "", retry_after: float | None = None) -> None:
        super().__init__(message, status=status, code=code)
        self.retry_after = retry_after


class UnexpectedAnswer(EgressProxiesError):
    """The answer is none that this client knows: a defect of the server, or something else that listens there."""
