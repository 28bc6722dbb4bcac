"""The origin that probes fetch over TLS, in a process of its own: ``python -m bench.origin CERTIFICATE KEY PORT``."""

import asyncio
import ssl
import sys

from app.dev.ports import LOOPBACK

_ANSWER = b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n"


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer one request with 204."""
    try:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(_ANSWER)
        await writer.drain()
    except (OSError, asyncio.IncompleteReadError):
        # A client that leaves is its own affair.
        pass
    finally:
        writer.close()


async def serve(certificate: str, key: str, port: int) -> None:
    """Serve until the process is ended."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    async with await asyncio.start_server(answer, LOOPBACK, port, ssl=context, backlog=512) as server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1], sys.argv[2], int(sys.argv[3])))
