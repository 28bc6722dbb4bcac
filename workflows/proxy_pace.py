"""When a resting workflow wakes up by itself, and for what."""

from enum import StrEnum


class Wake(StrEnum):
    """What a time is for."""

    RETRY = "Retry"
    """A failed step may be tried again."""
    LONG_AWAIT = "LongAwait"
    """An instance has been coming for long, which the status has to say."""
    WATCH = "Watch"
    """Probing may be started again."""
    STATUS = "Status"
    """A status that could not be written is written again."""
    AGE = "Age"
    """The instance reaches its maximum age."""
    BROKER = "Broker"
    """A broker that had no room is told again."""


class Pace:
    """One time per purpose, in epoch seconds."""

    def __init__(self) -> None:
        self._times: dict[Wake, float] = {}

    def set(self, wake: Wake, at: float) -> None:
        """Wake up at a time; an earlier one for the same purpose is replaced."""
        self._times[wake] = at

    def clear(self, wake: Wake) -> None:
        """Do not wake up for this."""
        self._times.pop(wake, None)

    def clear_steps(self) -> None:
        """Plan no step any more; what could not be told is still told."""
        for wake in (Wake.RETRY, Wake.LONG_AWAIT, Wake.WATCH, Wake.AGE):
            self.clear(wake)

    def is_set(self, wake: Wake) -> bool:
        """Whether a time for this is still to come."""
        return wake in self._times

    def seconds_left(self, now: float) -> float | None:
        """Return how long to rest at most, or None when nothing is planned."""
        return max(0.0, min(self._times.values()) - now) if self._times else None

    def take_due(self, now: float) -> list[Wake]:
        """Return what it is time for, once."""
        due = [wake for wake, at in self._times.items() if at <= now]
        for wake in due:
            del self._times[wake]
        return due
