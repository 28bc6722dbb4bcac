"""The words for what went wrong on the way through a proxy."""

import errno
import os
import ssl
from enum import StrEnum

from model.errors import EgressProxiesError


class Reason(StrEnum):
    """Reasons of a probe's result; a bounded set, since they are label values of a metric too."""

    PROBE_SUCCEEDED = "ProbeSucceeded"
    HOST_UNRESOLVED = "HostUnresolved"
    CONNECT_TIMEOUT = "ConnectTimeout"
    CONNECT_REFUSED = "ConnectRefused"
    HOST_UNREACHABLE = "HostUnreachable"
    AUTH_REJECTED = "AuthRejected"
    CONNECTION_CLOSED = "ConnectionClosed"
    PROXY_REFUSED = "ProxyRefused"
    INVALID_RESPONSE = "InvalidResponse"
    PROBE_TIMEOUT = "ProbeTimeout"
    TUNNEL_BROKEN = "TunnelBroken"
    UNEXPECTED_STATUS = "UnexpectedStatus"
    TARGET_UNAVAILABLE = "TargetUnavailable"
    INVALID_PROBE_URL = "InvalidProbeURL"
    PROBER_ERROR = "ProberError"


class ProbeFaultError(EgressProxiesError):
    """An exchange ended without the expected answer. Never leaves this package.

    Attributes:
        reason: The word for it.
        ask_target: Whether the target may be to blame, so that it has to be asked directly.
        proves_nothing: Whether neither the proxy nor the target is to blame.
    """

    def __init__(self, reason: Reason, message: str, *, ask_target: bool = False, proves_nothing: bool = False) -> None:
        super().__init__(message)
        self.reason = reason
        self.ask_target = ask_target
        self.proves_nothing = proves_nothing


class InvalidResponseError(EgressProxiesError):
    """The peer sent something that is no HTTP/1 response head, or one that is too long. Never leaves this package."""


LOCAL_ERRORS = frozenset(
    {
        errno.EMFILE,
        errno.ENFILE,
        errno.ENOBUFS,
        errno.ENOMEM,
        errno.EADDRNOTAVAIL,
        errno.EAFNOSUPPORT,
    }
)
"""Errors of ``connect`` that speak of this machine (files, memory, ports, address families) and not of the peer."""


def describe(error: OSError) -> str:
    """Return what happened in words of this machine's libraries, free of anything the peer sent."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"certificate not accepted: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        return f"TLS error {error.reason or 'unexpected end of data'}"
    if error.errno is not None:
        return os.strerror(error.errno)
    return str(error) or type(error).__name__
