"""Builds certificates of other issuers, with any kind of key and intermediates, and TLS contexts
of the webhook and its client."""

import ssl
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.x509.oid import NameOID

from gpushare.certs.identity import Authority, Identity
from gpushare.certs.issue import issue_authority, issue_identity
from gpushare.certs.validation import find_authority_problem, find_certificate_problem, general_name
from gpushare.webhook.certificates import load_identity

HOST = "gpushare-webhook.gpushare-system.svc"
LIFETIME = timedelta(days=90)
_RSA_BITS = {"rsa": 2048, "weak": 1024}

PrivateKey = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey
_Signer = tuple[x509.Name, PrivateKey]


def issue_foreign(
    hosts: Sequence[str], now: datetime, *, kind: str = "rsa", intermediates: int = 0
) -> Identity:
    """Issue a chain of a new CA, as in cert-manager's Secret: without the CA's key."""
    name, key = _name("root"), _build_key(kind, 0)
    root = _sign(name, key, (name, key), now, is_ca=True)
    signer, chain = (name, key), [b""]
    for number in range(1, intermediates + 1):
        name, key = _name(f"intermediate {number}"), _build_key(kind, number)
        chain.insert(0, _sign(name, key, signer, now, is_ca=True))
        signer = (name, key)
    key = _build_key(kind, intermediates + 1)
    certificate = _sign(_name("webhook"), key, signer, now, hosts=hosts)
    return Identity(Authority(root, b""), certificate + b"".join(chain), _encode(key))


@cache
def _build_key(kind: str, number: int) -> PrivateKey:
    """Build the key of this number once, since an RSA key takes a while."""
    if kind in _RSA_BITS:
        return rsa.generate_private_key(public_exponent=65537, key_size=_RSA_BITS[kind])
    if kind == "ec":
        return ec.generate_private_key(ec.SECP384R1())
    return ed25519.Ed25519PrivateKey.generate()


def _sign(
    name: x509.Name,
    key: PrivateKey,
    signer: _Signer,
    now: datetime,
    *,
    is_ca: bool = False,
    hosts: Sequence[str] = (),
) -> bytes:
    issuer, issuer_key = signer
    builder = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now)
        .not_valid_after(now + LIFETIME)
        .add_extension(x509.BasicConstraints(ca=is_ca, path_length=None), critical=True)
    )
    if hosts:
        names = x509.SubjectAlternativeName([general_name(host) for host in hosts])
        builder = builder.add_extension(names, critical=False)
    digest = None if isinstance(issuer_key, ed25519.Ed25519PrivateKey) else hashes.SHA256()
    return builder.sign(issuer_key, digest).public_bytes(serialization.Encoding.PEM)


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _encode(key: PrivateKey) -> bytes:
    # As cert-manager writes an RSA key unless told otherwise.
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8
        if isinstance(key, ed25519.Ed25519PrivateKey)
        else serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )


def build_tls() -> tuple[ssl.SSLContext, ssl.SSLContext, Any]:
    """Build a server's context, a client's that trusts only the server's CA, and that CA."""
    authority = issue_authority(datetime.now(UTC))
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    load_identity(server, issue_identity(authority, (HOST, "127.0.0.1"), datetime.now(UTC)))
    trusting = ssl.create_default_context(cadata=authority.certificate_pem.decode())
    return server, trusting, authority


def find_problem(identity: Identity, hosts: Sequence[str], now: datetime) -> str | None:
    """Find why an identity of ours must be replaced at `now`; None where it must not."""
    return find_authority_problem(identity.authority, now) or find_certificate_problem(
        identity, hosts, now
    )
