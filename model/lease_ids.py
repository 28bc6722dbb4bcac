"""Lease ids: 26 upper-case base32 characters for 16 random bytes, the shape the reference's ids have."""

import base64
import re

RAW_BYTES = 16

_SHAPE = re.compile(r"[A-Z2-7]{26}", re.ASCII)


def from_bytes(raw: bytes) -> str:
    """Return the id for 16 bytes."""
    return base64.b32encode(raw).decode().rstrip("=")


def to_bytes(lease_id: str) -> bytes | None:
    """Return the bytes of an id that ``from_bytes`` made, None for any other text."""
    if not _SHAPE.fullmatch(lease_id):
        return None
    raw = base64.b32decode(lease_id + "======")
    return raw if from_bytes(raw) == lease_id else None
