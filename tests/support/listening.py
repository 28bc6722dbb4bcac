"""A stranger on a port."""

import socket


def listen(host: str, port: int = 0) -> socket.socket:
    """Listen on a port until the socket is closed."""
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((host, port))
    listener.listen(16)
    return listener
