"""Issues our own certificate authority, and the webhook's certificate under it."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from gpushare.certs.identity import Authority, Identity, load_pair
from gpushare.certs.validation import BACKDATED, general_name

CA_LIFETIME = timedelta(days=3650)
LIFETIME = timedelta(days=90)


def issue_authority(now: datetime, lifetime: timedelta = CA_LIFETIME) -> Authority:
    """Issue a new self-signed CA."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = _name("gpushare-operator CA")
    certificate = (
        _builder(name, key.public_key(), now, now + lifetime)
        .issuer_name(name)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(signs_certificates=True), critical=True)
        .sign(key, hashes.SHA256())
    )
    return Authority(_pem(certificate), _key_pem(key))


def issue_identity(
    authority: Authority, hosts: Sequence[str], now: datetime, lifetime: timedelta = LIFETIME
) -> Identity:
    """Issue a certificate of `authority` for a server at `hosts`, DNS names or IP addresses.

    The certificate expires no later than its CA. Raises ValueError where the CA is not ours.
    """
    ca, ca_key = load_pair(authority.certificate_pem, authority.key_pem)
    if not isinstance(ca_key, ec.EllipticCurvePrivateKey):
        raise ValueError("the CA's key is not an EC key")
    key = ec.generate_private_key(ec.SECP256R1())
    end = min(now + lifetime, ca.not_valid_after_utc)
    certificate = (
        _builder(_name("gpushare-webhook"), key.public_key(), now, end)
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
    subject: x509.Name, key: ec.EllipticCurvePublicKey, now: datetime, end: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - BACKDATED)
        .not_valid_after(end)
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
