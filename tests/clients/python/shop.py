"""The site that the tests crawl."""

import ssl
import threading

from tests.probing.servers import Peer, ScriptedServer, response


class Shop(ScriptedServer):
    """Answers each path with its own page; refuses as many requests as it was told to.

    Attributes:
        refusals: Statuses of the next answers; after them every page is given.
        paths: What was asked for.
    """

    def __init__(self, tls: ssl.SSLContext) -> None:
        self.refusals: list[str] = []
        self.paths: list[str] = []
        self._answering = threading.Lock()
        super().__init__(self._answer, tls=tls)

    def url(self, path: str, host: str = "127.0.0.1") -> str:
        return f"https://{host}:{self.port}{path}"

    def _answer(self, peer: Peer) -> None:
        path = peer.read_head().split()[1]
        with self._answering:
            self.paths.append(path)
            status = self.refusals.pop(0) if self.refusals else "200 OK"
        body = f"the page at {path}".encode()
        peer.send(response(status, body, Connection="close"))
