"""Issues the certificate authority of our own, and the webhook's certificate under it."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from gpushare.certs.identity import (
    Authority,
    Identity,
    find_authority_flaw,
    find_flaw,
    general_name,
    load_pair,
)

CA_LIFETIME = timedelta(days=3650)
LIFETIME = timedelta(days=90)
BACKDATED = timedelta(hours=1)
"""Clocks of a cluster differ; a certificate must not lie in the API server's future."""


def renew(
    stored: Identity | None, held: Identity | None, hosts: Sequence[str], now: datetime
) -> tuple[Identity, str | None]:
    """The identity to serve with, and why it is not the `stored` one (None where it is).

    A stored CA that is good is kept, so that clients go on trusting it. Where nothing of use is
    stored, the `held` identity, which is being served, is put back: that costs no connection.
    """
    flaw = "nothing is stored" if stored is None else find_flaw(stored, hosts, now)
    if stored is not None and flaw is None:
        return stored, None
    if stored is not None and find_authority_flaw(stored.authority, now) is None:
        return issue_identity(stored.authority, hosts, now), flaw
    if held is not None and find_flaw(held, hosts, now) is None:
        return held, flaw
    return issue_identity(issue_authority(now), hosts, now), flaw


def issue_authority(now: datetime) -> Authority:
    """A new self-signed CA."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = _name("gpushare-operator CA")
    certificate = (
        _builder(name, key.public_key(), now, CA_LIFETIME)
        .issuer_name(name)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(signs_certificates=True), critical=True)
        .sign(key, hashes.SHA256())
    )
    return Authority(_pem(certificate), _key_pem(key))


def issue_identity(authority: Authority, hosts: Sequence[str], now: datetime) -> Identity:
    """A new certificate of `authority` for a server at `hosts`, DNS names or IP addresses."""
    ca, ca_key = load_pair(authority.certificate_pem, authority.key_pem)
    key = ec.generate_private_key(ec.SECP256R1())
    certificate = (
        _builder(_name("gpushare-webhook"), key.public_key(), now, LIFETIME)
        .issuer_name(ca.subject)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(
            x509.SubjectAlternativeName([general_name(host) for host in hosts]), critical=False
        )
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()),
            critical=False,
        )
        .sign(ca_key, hashes.SHA256())
    )
    return Identity(authority, _pem(certificate), _key_pem(key))


def _builder(
    subject: x509.Name, key: ec.EllipticCurvePublicKey, now: datetime, lifetime: timedelta
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - BACKDATED)
        .not_valid_after(now + lifetime)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
