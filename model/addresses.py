"""``host:port`` as flags are written."""

_HIGHEST_PORT = 65535


def split_host_port(address: str) -> tuple[str, int] | None:
    """Return the host as written ("" where there is none) and the port, or None when there is no port 0-65535."""
    host, colon, port = address.rpartition(":")
    is_port = port.isascii() and port.isdecimal() and len(port) <= len(str(_HIGHEST_PORT))
    if not colon or not is_port or int(port) > _HIGHEST_PORT:
        return None
    return host, int(port)
