"""An HTTPS origin with a certificate authority of its own, so that the demo needs no internet."""

import contextlib
import ipaddress
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from app.dev.pki import certificate_builder, signs_certificates, write_private
from app.dev.ports import LOOPBACK

PAGE = "Hello from a site that only a trusted client can read.\nThis page came over TLS.\n"
PROBE_PATH = "/generate_204"
EXIT_IP_HEADER = "X-Exit-IP"
_VALIDITY = timedelta(days=1)


@dataclass(frozen=True, kw_only=True)
class Origin:
    """A running origin.

    Attributes:
        url: Of the page, ending in a slash.
        authority: PEM file with the certificate that its clients have to trust.
    """

    url: str
    authority: Path

    @property
    def probe_url(self) -> str:
        """Answers 204 without a body."""
        return self.url.rstrip("/") + PROBE_PATH

    @property
    def host(self) -> str:
        """``host:port``, as a crawler names its target."""
        return self.url.removeprefix("https://").rstrip("/")


@contextlib.asynccontextmanager
async def https_origin(directory: Path, address: str = LOOPBACK) -> AsyncIterator[Origin]:
    """Serve the page at ``/`` and 204 at ``/generate_204`` on a free port while the body runs.

    Args:
        directory: New keys and certificates go here, readable for their owner alone.
        address: Of this machine, to listen on and to issue the certificate for.
    """
    context, authority = _make_certificates(directory, address)
    application = web.Application()
    application.add_routes([web.get("/", _page), web.get(PROBE_PATH, _no_content)])
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    try:
        await web.TCPSite(runner, address, 0, ssl_context=context).start()
        port = runner.addresses[0][1]
        yield Origin(url=f"https://{address}:{port}/", authority=authority)
    finally:
        await runner.cleanup()


async def _page(request: web.Request) -> web.Response:
    return web.Response(text=f"{PAGE}It was fetched from {request.remote}.\n")


async def _no_content(request: web.Request) -> web.Response:
    """Answer the probe, and tell it from where it came."""
    return web.Response(status=204, headers={EXIT_IP_HEADER: request.remote or ""})


def _make_certificates(directory: Path, address: str) -> tuple[ssl.SSLContext, Path]:
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    now = datetime.now(UTC)
    authority_key, server_key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "egress-proxies-demo-ca")])
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "egress-proxies-demo-origin")])
    identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key())
    authority = (
        certificate_builder(issuer, issuer, authority_key, now, _VALIDITY)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(signs_certificates(), critical=True)
        .sign(authority_key, hashes.SHA256())
    )
    names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(address))])
    server = (
        certificate_builder(subject, issuer, server_key, now, _VALIDITY)
        .add_extension(names, critical=False)
        .add_extension(identifier, critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    authority_path, server_path = directory / "ca.crt", directory / "server.pem"
    write_private(authority_path, authority.public_bytes(serialization.Encoding.PEM))
    key = server_key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    write_private(server_path, key + server.public_bytes(serialization.Encoding.PEM))
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(server_path)
    return context, authority_path
