"""Raw bytes of a snapshot, read in the order they were written."""


class BlobReader:
    """Reads on from where the last read ended."""

    def __init__(self, blob: bytes) -> None:
        self._blob = blob
        self._position = 0

    def take(self, count: int) -> bytes:
        """Return the next bytes."""
        start = self._position
        self._position += count
        return self._blob[start : self._position]
