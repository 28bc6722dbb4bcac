"""The address the target saw, where the target tells it.

It tells by one of three, looked at in this order:

1. the header ``X-Exit-IP`` with an IP address;
2. a body of at most 64 bytes that is an IP address and nothing else (as ``https://api.ipify.org`` answers);
3. a body of at most 1 KiB that is a JSON object whose ``ip`` is an IP address (as ``https://ipinfo.io/json`` answers).
"""

import asyncio
import ipaddress
import json
import logging

from probing.faults import InvalidResponseError
from probing.response import Head, read_body
from probing.streams import Stream

HEADER = "x-exit-ip"
BODY_LIMIT = 1024
ADDRESS_LIMIT = 64
LONGEST_WAIT_SECONDS = 1.0
"""How long a probe that has already succeeded waits for a body."""

_log = logging.getLogger(__name__)


async def read_exit_ip(stream: Stream, head: Head, received: bytes, deadline: float) -> str:
    """Return the exit address, or "" where the target does not tell it in time.

    Args:
        stream: The connection, at the start of the body.
        head: The response's head.
        received: What came after the head.
        deadline: The probe's, in the event loop's time.
    """
    told = _address(head.headers.get(HEADER, ""))
    if told:
        return told
    limit = min(deadline, asyncio.get_running_loop().time() + LONGEST_WAIT_SECONDS)
    try:
        async with asyncio.timeout_at(limit):
            body = await read_body(stream, head, received, BODY_LIMIT)
    except (OSError, InvalidResponseError) as error:
        # The expected status came through: the proxy works, whatever becomes of the body.
        _log.debug("no exit address in the body: %s", type(error).__name__)
        return ""
    return exit_ip_of(body) if body else ""


def exit_ip_of(body: bytes) -> str:
    """Return the address that a body consists of or names, or ""."""
    text = body.decode("utf-8", "replace").strip()
    if len(body) <= ADDRESS_LIMIT and _address(text):
        return _address(text)
    if not text.startswith("{"):
        return ""
    try:
        told = json.loads(text)
    except (ValueError, RecursionError):
        return ""
    ip = told.get("ip")
    return _address(ip) if isinstance(ip, str) else ""


def _address(text: str) -> str:
    try:
        ip = ipaddress.ip_address(text.strip())
    except ValueError:
        return ""
    return str(ip) if ip.version == 4 or not ip.scope_id else ""
