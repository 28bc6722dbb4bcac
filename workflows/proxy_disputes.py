"""Steps whose workers keep finding another object than the one that is read."""


class Disputes:
    """How often in a row the same step has met that, while the object stayed as it is."""

    def __init__(self) -> None:
        self._action = ""
        self._fingerprint = ""
        self._times = 0

    def add(self, action: str, fingerprint: str) -> int:
        """Count one more about an object of this fingerprint; return the number, 1 for the first."""
        if (action, fingerprint) != (self._action, self._fingerprint):
            self._action, self._fingerprint, self._times = action, fingerprint, 0
        self._times += 1
        return self._times

    def end(self, action: str) -> bool:
        """Take in that a step has succeeded; True where that ends a dispute which was shown as a failure."""
        if action != self._action or not self._times:
            return False
        was_shown = self._times > 1
        self._times = 0
        return was_shown
