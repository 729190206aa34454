"""What the webhook serves with, and whether it is still good."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from ipaddress import ip_address
from typing import Self

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

RENEW_AT = 1 / 3
"""Part of the lifetime that is left when a successor is issued."""


@dataclass(frozen=True, slots=True)
class Authority:
    """A CA and its key, in PEM."""

    certificate_pem: bytes
    key_pem: bytes


@dataclass(frozen=True, slots=True)
class Identity:
    """All that the webhook serves with: the CA that clients trust, its own certificate and key."""

    authority: Authority
    certificate_pem: bytes
    key_pem: bytes

    @property
    def expires(self) -> datetime:
        return x509.load_pem_x509_certificate(self.certificate_pem).not_valid_after_utc

    def to_secret_data(self) -> dict[str, bytes]:
        """The data of a Secret of type kubernetes.io/tls, with the CA beside it."""
        return {
            "ca.crt": self.authority.certificate_pem,
            "ca.key": self.authority.key_pem,
            "tls.crt": self.certificate_pem,
            "tls.key": self.key_pem,
        }

    @classmethod
    def from_secret_data(cls, data: Mapping[str, bytes]) -> Self:
        """The reverse; what is missing is empty, and `find_flaw` says so."""
        return cls(
            Authority(data.get("ca.crt", b""), data.get("ca.key", b"")),
            data.get("tls.crt", b""),
            data.get("tls.key", b""),
        )


def find_authority_flaw(authority: Authority, now: datetime) -> str | None:
    """Why a CA can't be used at `now`, or should not be for long; None where it can."""
    try:
        certificate, _ = load_pair(authority.certificate_pem, authority.key_pem)
    except ValueError as error:
        return f"the CA is unusable: {error}"
    return _find_time_flaw("the CA", certificate, now)


def find_flaw(identity: Identity, hosts: Sequence[str], now: datetime) -> str | None:
    """Why an identity needs replacing at `now`; None where it does not."""
    if flaw := find_authority_flaw(identity.authority, now):
        return flaw
    ca = x509.load_pem_x509_certificate(identity.authority.certificate_pem)
    try:
        certificate, _ = load_pair(identity.certificate_pem, identity.key_pem)
    except ValueError as error:
        return f"the certificate is unusable: {error}"
    try:
        certificate.verify_directly_issued_by(ca)
    except (ValueError, TypeError, InvalidSignature):
        return "the certificate is not of this CA"
    names = _alternative_names(certificate)
    if missing := [host for host in hosts if general_name(host) not in names]:
        return f"the certificate lacks {', '.join(missing)}"
    return _find_time_flaw("the certificate", certificate, now)


def _find_time_flaw(what: str, certificate: x509.Certificate, now: datetime) -> str | None:
    begin, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    if now < begin:
        return f"{what} is not valid before {begin.isoformat()}"
    if now >= end:
        return f"{what} expired at {end.isoformat()}"
    if end - now < (end - begin) * RENEW_AT:
        return f"{what} expires at {end.isoformat()}, in less than a third of its lifetime"
    return None


def load_pair(
    certificate_pem: bytes, key_pem: bytes
) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    """A certificate and its key from PEM; ValueError where they are none, or not of each other."""
    certificate = x509.load_pem_x509_certificate(certificate_pem)
    try:
        key = serialization.load_pem_private_key(key_pem, password=None)
    except TypeError as error:
        raise ValueError("its key is encrypted") from error
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise ValueError("its key is not an elliptic curve's")
    if key.public_key() != certificate.public_key():
        raise ValueError("certificate and key don't belong together")
    return certificate, key


def general_name(host: str) -> x509.GeneralName:
    """A DNS name or IP address, as certificates have it."""
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _alternative_names(certificate: x509.Certificate) -> list[x509.GeneralName]:
    try:
        extension = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except (x509.ExtensionNotFound, ValueError):
        return []
    return list(extension.value)
