"""How often an activity has really tried, where Temporal's count of attempts holds more than that."""

from temporalio import activity

MOST_TRIES = 3
"""As many as Temporal makes of other calls; after them the workflow shows the failure and sets the pace."""


class Tries:
    """The tries of one activity over all its attempts, this one included; kept in the heartbeat details.

    An attempt that left no word, because its worker died before it was heard of, counts: it may have had an effect.
    """

    def __init__(self) -> None:
        """Read what earlier attempts have left; for use inside of an activity."""
        information = activity.info()
        self._attempt = information.attempt
        made, last_attempt = 0, 0
        if information.heartbeat_details:
            made, last_attempt = information.heartbeat_details
        self.number = made + (self._attempt - last_attempt)

    @property
    def details(self) -> tuple[int, int]:
        """What every heartbeat of this attempt has to carry."""
        return self.number, self._attempt

    @property
    def exhausted(self) -> bool:
        """Whether this is the last try, or one too many."""
        return self.number >= MOST_TRIES

    @property
    def too_many(self) -> bool:
        """Whether all tries were made before this attempt, and none of them could say how it ended."""
        return self.number > MOST_TRIES

    def take_back(self) -> None:
        """Count this attempt as none: it asked nobody for anything."""
        self.number -= 1
        activity.heartbeat(*self.details)
