"""Lease ids: 26 upper-case base32 characters for 16 bytes, the shape the reference's ids have. And UUIDs as bytes."""

import base64
import re

RAW_BYTES = 16

_SHAPE = re.compile(r"[A-Z2-7]{25}[AEIMQUY4]", re.ASCII)
"""The last character holds 3 bits; another one would name the same bytes."""
_DIGITS = str.maketrans("ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", "0123456789ABCDEFGHIJKLMNOPQRSTUV")
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII)


def from_bytes(raw: bytes) -> str:
    """Return the id for 16 bytes."""
    return base64.b32encode(raw).decode().rstrip("=")


def to_bytes(lease_id: str) -> bytes | None:
    """Return the bytes of an id that ``from_bytes`` made, None for any other text."""
    if not _SHAPE.fullmatch(lease_id):
        return None
    # Several times as quick as base64.b32decode, which is Python.
    return (int(lease_id.translate(_DIGITS), 32) >> 2).to_bytes(RAW_BYTES, "big")


def uuid_to_bytes(text: str) -> bytes | None:
    """Return the 16 bytes of a UUID in its usual form, None for any other text."""
    return bytes.fromhex(text.replace("-", "")) if _UUID.fullmatch(text) else None


def uuid_from_bytes(raw: bytes) -> str:
    """Return the usual form of a UUID."""
    digits = raw.hex()
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"
