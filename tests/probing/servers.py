"""Scripted TCP servers in threads, away from the event loop under test."""

import socket
import ssl
import threading
from collections.abc import Callable
from contextlib import suppress

Handler = Callable[["Peer"], None]

GIVE_UP_SECONDS = 30.0


class Peer:
    """One accepted connection."""

    def __init__(self, sock: socket.socket, closing: threading.Event) -> None:
        self.socket = sock
        self._closing = closing

    def read_head(self) -> str:
        """Return a request's head."""
        data = b""
        while b"\r\n\r\n" not in data:
            more = self.socket.recv(4096)
            if not more:
                raise ConnectionError("the client left")
            data += more
        return data.decode()

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def linger(self, seconds: float = GIVE_UP_SECONDS) -> bool:
        """Wait; returns True when the server is being closed."""
        return self._closing.wait(seconds)

    def reset(self) -> None:
        """Close with RST."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
        self.socket.close()


class ScriptedServer:
    """Runs a handler per connection; closes what the handler leaves open."""

    def __init__(self, handler: Handler, *, host: str = "127.0.0.1", tls: ssl.SSLContext | None = None) -> None:
        self._handler = handler
        self._tls = tls
        self._closing = threading.Event()
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        self.connections = 0
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._listener = socket.create_server((host, 0), family=family, backlog=256)
        self.host = host
        self.port: int = self._listener.getsockname()[1]
        self._start(self._accept)

    @property
    def authority(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def close(self) -> None:
        self._closing.set()
        self._listener.shutdown(socket.SHUT_RDWR)
        with self._lock:
            for sock in self._open:
                with suppress(OSError):
                    sock.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(GIVE_UP_SECONDS)
        self._listener.close()

    def _start(self, work: Callable[[], None]) -> None:
        thread = threading.Thread(target=work, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while not self._closing.is_set():
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            with self._lock:
                self.connections += 1
                self._open.add(sock)
            self._start(lambda sock=sock: self._serve(sock))  # type: ignore[misc]

    def _serve(self, sock: socket.socket) -> None:
        served = sock
        try:
            with suppress(OSError):
                if self._tls is not None:
                    served = self._tls.wrap_socket(sock, server_side=True)
                    with self._lock:
                        self._open.add(served)
                self._handler(Peer(served, self._closing))
        finally:
            with self._lock:
                self._open -= {sock, served}
            served.close()
            sock.close()


def response(status: str = "204 No Content", body: bytes = b"", **headers: str) -> bytes:
    """Return a whole HTTP response."""
    lines = [f"HTTP/1.1 {status}", *(f"{name.replace('_', '-')}: {value}" for name, value in headers.items())]
    if body:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode() + body


class Origin(ScriptedServer):
    """An HTTP server that gives the same answer to every request and keeps the requests."""

    def __init__(
        self, answer: bytes = response(), *, host: str = "127.0.0.1", tls: ssl.SSLContext | None = None
    ) -> None:
        self.answer = answer
        self.requests: list[str] = []
        super().__init__(self._answer, host=host, tls=tls)

    def _answer(self, peer: Peer) -> None:
        self.requests.append(peer.read_head())
        peer.send(self.answer)

    @property
    def url(self) -> str:
        return f"{'http' if self._tls is None else 'https'}://{self.authority}/generate_204"


def silent(peer: Peer) -> None:
    """Accept and say nothing."""
    peer.linger()


def relay(peer: Peer) -> None:
    """Serve CONNECT as a proxy should."""
    host, _, port = peer.read_head().split()[1].rpartition(":")
    tunnel(peer, host.strip("[]"), int(port))


def tunnel(peer: Peer, host: str, port: int) -> None:
    """Answer CONNECT and pass bytes in both directions."""
    with socket.create_connection((host, port)) as upstream:
        peer.send(b"HTTP/1.1 200 Connection established\r\n\r\n")
        back = threading.Thread(target=_copy, args=(upstream, peer.socket))
        back.start()
        _copy(peer.socket, upstream)
        back.join()


def _copy(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(16384):
            sink.sendall(data)
    with suppress(OSError):
        sink.shutdown(socket.SHUT_WR)
