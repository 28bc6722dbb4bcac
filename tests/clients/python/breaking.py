"""A proxy that works until a site is asked for, and is broken from then on."""

from tests.probing.servers import Peer, ScriptedServer, response, tunnel

BREAKS = {"breaks": "yes"}
"""The attributes of its Proxy."""
WORKS = {"breaks": "no"}
"""The attributes of the other ones."""


class BreakingProxy(ScriptedServer):
    """Serves CONNECT, the probes' too, until the first one to ``breaks_at``.

    Attributes:
        broken: Whether it refuses every CONNECT by now.
    """

    def __init__(self, breaks_at: int) -> None:
        self.broken = False
        self._breaks_at = breaks_at
        super().__init__(self._serve_connect)

    def _serve_connect(self, peer: Peer) -> None:
        host, _, port = peer.read_head().split()[1].rpartition(":")
        self.broken = self.broken or int(port) == self._breaks_at
        if self.broken:
            peer.send(response("502 Bad Gateway", Connection="close"))
        else:
            tunnel(peer, host, int(port))
