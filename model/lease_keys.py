"""What travels and is kept in place of a client's own texts: hashes of idempotency keys, requests and sessions."""

import hashlib
import json
from typing import Any

from model import lease_ids

HASH_BYTES = 8
HASH_CHARACTERS = 2 * HASH_BYTES
_KEY_PREFIX = b"idempotency-key\0"


def lease_id_of_key(key: str) -> str:
    """Return the id of the lease that an idempotency key stands for: the same on every replica, after any restart."""
    return lease_ids.from_bytes(hashlib.sha256(_KEY_PREFIX + key.encode()).digest()[: lease_ids.RAW_BYTES])


def request_hash(*facts: Any) -> str:
    """Return the hash of what a request asks for, whatever the order and spacing its JSON came in."""
    text = json.dumps(facts, sort_keys=True, separators=(",", ":"))
    return _hash(text)


def session_hash(session: str) -> str:
    """Return the hash of a session's name."""
    return _hash(session)


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).digest()[:HASH_BYTES].hex()
