"""What broken proxies do with a connection."""

import socket

from tests.probing.servers import Handler, Peer, response


def answers(answer: bytes) -> Handler:
    def handler(peer: Peer) -> None:
        peer.read_head()
        peer.send(answer)
        peer.linger()

    return handler


def closes(peer: Peer) -> None:
    peer.read_head()


def resets(peer: Peer) -> None:
    peer.read_head()
    peer.reset()


def answers_late(peer: Peer) -> None:
    peer.read_head()
    if not peer.linger(60):
        peer.send(response("503 Service Unavailable"))


def dribbles(peer: Peer) -> None:
    peer.read_head()
    peer.send(b"HTTP/1.1 200 OK\r\nX: ")
    while not peer.linger(0.1):
        peer.send(b"a")


def half_closes(peer: Peer) -> None:
    peer.read_head()
    peer.socket.shutdown(socket.SHUT_WR)
    peer.linger()


def tunnel_closes(peer: Peer) -> None:
    peer.read_head()
    peer.send(b"HTTP/1.1 200 OK\r\n\r\n")


def tunnel_resets(peer: Peer) -> None:
    peer.read_head()
    peer.send(b"HTTP/1.1 200 OK\r\n\r\n")
    peer.socket.recv(65536)
    peer.reset()


def tunnel_is_silent(peer: Peer) -> None:
    peer.read_head()
    peer.send(b"HTTP/1.1 200 OK\r\n\r\n")
    peer.linger()


def tunnel_speaks_plainly(peer: Peer) -> None:
    peer.read_head()
    peer.send(b"HTTP/1.1 200 OK\r\n\r\n")
    peer.socket.recv(65536)
    peer.send(response("204 No Content"))
