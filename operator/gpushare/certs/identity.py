"""Reads and writes the Secret with the webhook's certificate and the CAs that clients trust."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Self

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes

_END = b"-----END CERTIFICATE-----"


@dataclass(frozen=True, slots=True)
class Authority:
    """A CA and its key, in PEM."""

    certificate_pem: bytes
    key_pem: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Identity:
    """A certificate and its key, and the CAs that clients trust: the newest one and older ones.

    Any of these CAs may have issued the certificate: see `rotation`. For a certificate of another
    issuer, the CA has no key, or is empty.
    """

    authority: Authority
    certificate_pem: bytes
    key_pem: bytes = field(repr=False)
    older_pem: bytes = b""

    @property
    def trust_pem(self) -> bytes:
        """The CAs, newest first: the caBundle of this server's clients."""
        return self.authority.certificate_pem + self.older_pem

    @property
    def expires(self) -> datetime:
        return x509.load_pem_x509_certificate(self.certificate_pem).not_valid_after_utc

    def to_secret_data(self) -> dict[str, bytes]:
        """Build the data of a kubernetes.io/tls Secret, with the CAs and the newest's key."""
        return {
            "ca.crt": self.trust_pem,
            "ca.key": self.authority.key_pem,
            "tls.crt": self.certificate_pem,
            "tls.key": self.key_pem,
        }

    @classmethod
    def from_secret_data(cls, data: Mapping[str, bytes]) -> Self:
        """Read the data of a Secret; missing keys are empty, which `certs.validation` reports."""
        head, end, tail = data.get("ca.crt", b"").partition(_END)
        return cls(
            Authority(head + end + b"\n" if end else head, data.get("ca.key", b"")),
            data.get("tls.crt", b""),
            data.get("tls.key", b""),
            tail.lstrip(),
        )


def load_certificates(pem: bytes) -> list[x509.Certificate]:
    """Load the certificates of a PEM file; none where one of them is invalid."""
    try:
        return x509.load_pem_x509_certificates(pem)
    except (ValueError, x509.InvalidVersion):
        return []


def load_pair(certificate_pem: bytes, key_pem: bytes) -> tuple[x509.Certificate, PrivateKeyTypes]:
    """Load a certificate and its key from PEM. Raises ValueError for an invalid pair."""
    try:
        certificate = x509.load_pem_x509_certificate(certificate_pem)
        key = serialization.load_pem_private_key(key_pem, password=None)
        belongs = key.public_key() == certificate.public_key()
    except TypeError as error:
        raise ValueError("its key is encrypted") from error
    except UnsupportedAlgorithm as error:
        raise ValueError(f"its key type is not supported: {error}") from error
    except x509.InvalidVersion as error:
        raise ValueError(str(error)) from error
    if not belongs:
        raise ValueError("certificate and key don't match")
    return certificate, key
