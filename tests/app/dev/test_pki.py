import asyncio
import contextlib
import ssl
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509

from app.dev.pki import RENEW_BEFORE, VALIDITY, Pki, ensure_pki

NOW = datetime(2026, 1, 2, tzinfo=UTC)


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def test_files_are_readable_for_their_owner_alone(tmp_path: Path) -> None:
    ensure_pki(tmp_path / "pki")
    assert stat.S_IMODE((tmp_path / "pki").stat().st_mode) == 0o700
    files = list((tmp_path / "pki").iterdir())
    assert len(files) == 7
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}


def test_everything_is_kept_until_it_is_near_its_end(tmp_path: Path) -> None:
    ensure_pki(tmp_path, NOW)
    first = contents(tmp_path)
    ensure_pki(tmp_path, NOW + VALIDITY - RENEW_BEFORE - timedelta(seconds=1))
    assert contents(tmp_path) == first


def test_certificates_near_their_end_are_renewed_and_the_service_account_key_stays(tmp_path: Path) -> None:
    pki = ensure_pki(tmp_path, NOW)
    first = contents(tmp_path)
    ensure_pki(tmp_path, NOW + VALIDITY - RENEW_BEFORE)
    renewed = {name for name, content in contents(tmp_path).items() if content != first[name]}
    assert renewed == first.keys() - {pki.service_account_key.name}


@pytest.mark.parametrize("name", ["ca.crt", "ca.key"])
def test_a_damaged_authority_is_made_anew_with_all_it_signed(tmp_path: Path, name: str) -> None:
    ensure_pki(tmp_path, NOW)
    first = contents(tmp_path)
    (tmp_path / name).write_text("torn")
    ensure_pki(tmp_path, NOW)
    second = contents(tmp_path)
    assert {"ca.crt", "server.crt", "admin.crt"} <= {key for key in second if second[key] != first[key]}


@pytest.mark.parametrize("name", ["server.crt", "server.key", "admin.crt", "admin.key", "service-account.key"])
def test_what_is_missing_is_made_and_the_rest_stays(tmp_path: Path, name: str) -> None:
    ensure_pki(tmp_path, NOW)
    first = contents(tmp_path)
    (tmp_path / name).unlink()
    ensure_pki(tmp_path, NOW)
    second = contents(tmp_path)
    assert second.keys() == first.keys()
    pair = {name.replace(".crt", ".key"), name.replace(".key", ".crt")}
    assert {key for key in second if second[key] != first[key]} == pair & first.keys()


def test_a_certificate_of_another_key_is_made_anew(tmp_path: Path) -> None:
    ensure_pki(tmp_path, NOW)
    (tmp_path / "server.key").write_bytes((tmp_path / "admin.key").read_bytes())
    first = contents(tmp_path)
    ensure_pki(tmp_path, NOW)
    assert contents(tmp_path)["server.crt"] != first["server.crt"]


def test_the_admin_is_a_member_of_the_masters(tmp_path: Path) -> None:
    pki = ensure_pki(tmp_path)
    subject = x509.load_pem_x509_certificate(pki.admin.certificate.read_bytes()).subject.rfc4514_string()
    assert "O=system:masters" in subject


def contexts(pki: Pki) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=pki.authority.certificate)
    server.verify_mode = ssl.CERT_REQUIRED
    server.load_cert_chain(pki.server.certificate, pki.server.key)
    client = ssl.create_default_context(cafile=pki.authority.certificate)
    client.verify_flags |= ssl.VERIFY_X509_STRICT
    client.load_cert_chain(pki.admin.certificate, pki.admin.key)
    return server, client


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost", "10.0.0.1", "kubernetes.default.svc"])
async def test_a_strict_client_trusts_the_server_under_each_of_its_names(tmp_path: Path, name: str) -> None:
    server_context, client_context = contexts(ensure_pki(tmp_path))
    await handshake(server_context, client_context, name)


async def test_a_client_does_not_trust_the_server_under_another_name(tmp_path: Path) -> None:
    server_context, client_context = contexts(ensure_pki(tmp_path))
    with pytest.raises(ssl.SSLCertVerificationError):
        await handshake(server_context, client_context, "example.com")


async def handshake(server_context: ssl.SSLContext, client_context: ssl.SSLContext, name: str) -> None:
    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"hello")
        await closed(writer)

    server = await asyncio.start_server(greet, "127.0.0.1", 0, ssl=server_context)
    async with server, asyncio.timeout(10):
        port = server.sockets[0].getsockname()[1]
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=client_context, server_hostname=name)
        assert await reader.read() == b"hello"
        await closed(writer)


async def closed(writer: asyncio.StreamWriter) -> None:
    writer.close()
    # How politely TLS says goodbye is not the point.
    with contextlib.suppress(ConnectionError, ssl.SSLError):
        await writer.wait_closed()
