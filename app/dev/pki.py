"""Keys and certificates of the embedded control plane."""

import ipaddress
import os
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

VALIDITY = timedelta(days=365)
RENEW_BEFORE = timedelta(days=30)
# Clients whose clock is a little behind must not refuse a certificate made just now.
_BACKDATED = timedelta(hours=1)
_CRITICAL = (x509.BasicConstraints, x509.KeyUsage)

_CERTIFICATE_AUTHORITY = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "egress-proxies-dev-ca")])
_SERVER = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "kube-apiserver")])
# Members of system:masters may do everything: https://kubernetes.io/docs/reference/access-authn-authz/rbac/
_ADMIN = x509.Name(
    [
        x509.NameAttribute(NameOID.ORGANIZATION_NAME, "system:masters"),
        x509.NameAttribute(NameOID.COMMON_NAME, "egress-proxies-admin"),
    ]
)
_SERVER_NAMES = x509.SubjectAlternativeName(
    [
        x509.IPAddress(ipaddress.ip_address("127.0.0.1")),
        # First address of the service range, where Pods reach the API server.
        x509.IPAddress(ipaddress.ip_address("10.0.0.1")),
        x509.DNSName("localhost"),
        x509.DNSName("kubernetes.default.svc"),
    ]
)


@dataclass(frozen=True, kw_only=True)
class KeyPair:
    """Paths of a PEM certificate and its key."""

    certificate: Path
    key: Path


@dataclass(frozen=True, kw_only=True)
class Pki:
    """Everything that the control plane's programs are given.

    Attributes:
        authority: The certificate authority that clients trust and that signs client certificates.
        server: Certificate of etcd, the API server and the controller manager; as a client, the API server's at etcd.
        admin: Client certificate of a member of system:masters.
        service_account_key: Signs and verifies service account tokens.
    """

    authority: KeyPair
    server: KeyPair
    admin: KeyPair
    service_account_key: Path


def ensure_pki(directory: Path, now: datetime | None = None) -> Pki:
    """Return the keys and certificates in a folder; what is missing, damaged or near its end is made anew.

    Args:
        directory: Made when missing, readable for its owner alone, like every file in it.
        now: The time by which certificates are judged and made.
    """
    now = now or datetime.now(UTC)
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    pki = Pki(
        authority=key_pair(directory, "ca"),
        server=key_pair(directory, "server"),
        admin=key_pair(directory, "admin"),
        service_account_key=directory / "service-account.key",
    )
    if not _usable(pki.authority, pki.authority, now):
        # What an older authority signed then fails the check below and is made anew too.
        issue(pki.authority, pki.authority, _CERTIFICATE_AUTHORITY, _authority_extensions(), now)
    usages = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    if not _usable(pki.server, pki.authority, now):
        issue(pki.server, pki.authority, _SERVER, [_SERVER_NAMES, x509.ExtendedKeyUsage(usages)], now)
    if not _usable(pki.admin, pki.authority, now):
        issue(pki.admin, pki.authority, _ADMIN, [x509.ExtendedKeyUsage(usages[1:])], now)
    if not _readable_key(pki.service_account_key):
        write_private(pki.service_account_key, _key_bytes(ec.generate_private_key(ec.SECP256R1())))
    return pki


def write_private(path: Path, content: bytes) -> None:
    """Write a file that only its owner can read, whole or not at all."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}.new")
    temporary.unlink(missing_ok=True)
    with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)
    temporary.replace(path)


def key_pair(directory: Path, name: str) -> KeyPair:
    """Return where a folder has the certificate and the key of that name."""
    return KeyPair(certificate=directory / f"{name}.crt", key=directory / f"{name}.key")


def _authority_extensions() -> list[x509.ExtensionType]:
    return [x509.BasicConstraints(ca=True, path_length=0), signs_certificates()]


def certificate_builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, now: datetime, validity: timedelta
) -> x509.CertificateBuilder:
    """Return a certificate to be completed and signed; it is valid from a little before ``now``, for clocks differ."""
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _BACKDATED)
        .not_valid_after(now + validity)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def signs_certificates() -> x509.KeyUsage:
    """Return the use of an authority's key."""
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=True,
        crl_sign=True,
        encipher_only=False,
        decipher_only=False,
    )


def issue(
    pair: KeyPair, issuer: KeyPair, subject: x509.Name, extensions: list[x509.ExtensionType], now: datetime
) -> None:
    """Make a key and a certificate; an authority that issues itself is given as both ``pair`` and ``issuer``."""
    key = ec.generate_private_key(ec.SECP256R1())
    issuer_key = key if pair is issuer else _load_key(issuer.key)
    identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key())
    builder = certificate_builder(subject, _CERTIFICATE_AUTHORITY, key, now, VALIDITY)
    builder = builder.add_extension(identifier, critical=False)
    for extension in extensions:
        builder = builder.add_extension(extension, critical=isinstance(extension, _CRITICAL))
    certificate = builder.sign(issuer_key, hashes.SHA256())
    write_private(pair.key, _key_bytes(key))
    write_private(pair.certificate, certificate.public_bytes(serialization.Encoding.PEM))


def _usable(pair: KeyPair, issuer: KeyPair, now: datetime) -> bool:
    """Whether a certificate is of its key and its issuer, and neither too young nor near its end."""
    try:
        certificate = x509.load_pem_x509_certificate(pair.certificate.read_bytes())
        authority = x509.load_pem_x509_certificate(issuer.certificate.read_bytes())
        certificate.verify_directly_issued_by(authority)
        if certificate.public_key() != _load_key(pair.key).public_key():
            return False
    except Exception:  # missing, torn, or not what it should be: each is cured by a new one
        return False
    return certificate.not_valid_before_utc <= now < certificate.not_valid_after_utc - RENEW_BEFORE


def _readable_key(path: Path) -> bool:
    try:
        _load_key(path)
    except (OSError, ValueError, TypeError):  # missing, torn, or of another kind: cured by a new one
        return False
    return True


def _load_key(path: Path) -> ec.EllipticCurvePrivateKey:
    key = serialization.load_pem_private_key(path.read_bytes(), password=None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise TypeError(f"{path} is not an elliptic curve key")
    return key


def _key_bytes(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )
