"""Finds problems of a certificate, and other owners of its Secret."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from ipaddress import ip_address
from typing import Any, Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec

from gpushare import names
from gpushare.certs.identity import Authority, Identity, load_certificates, load_pair

TLS: Final = "kubernetes.io/tls"
MANAGED_BY: Final = "app.kubernetes.io/managed-by"
LABELS: Final = {MANAGED_BY: names.FIELD_MANAGER}
"""Labels of a Secret of ours."""
_CERT_MANAGER: Final = "cert-manager.io/"
_UNREADABLE_NAMES = (
    x509.ExtensionNotFound,
    x509.DuplicateExtension,
    x509.UnsupportedGeneralNameType,
    ValueError,
)
BACKDATED = timedelta(hours=1)
"""How far a certificate's begin is set back, for clients whose clocks are behind."""
RENEW_AT = 1 / 3
"""Remaining part of a lifetime at which a successor is issued."""


def find_authority_problem(authority: Authority, now: datetime, *, ages: bool = True) -> str | None:
    """Find why our CA is invalid at `now`, or, with `ages`, should be replaced soon."""
    try:
        certificate, key = load_pair(authority.certificate_pem, authority.key_pem)
    except ValueError as error:
        return f"the CA is unusable: {error}"
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        return "the CA is unusable: its key is not an EC key"
    return _find_time_problem("the CA", certificate, now, ages=ages)


def find_certificate_problem(
    identity: Identity, hosts: Sequence[str], now: datetime, *, ages: bool = True
) -> str | None:
    """Find why a certificate of our CAs is invalid at `now`, or, with `ages`, should be replaced
    soon."""
    try:
        certificate, _ = load_pair(identity.certificate_pem, identity.key_pem)
    except ValueError as error:
        return f"the certificate is unusable: {error}"
    if find_issuer(certificate, list_living(identity.trust_pem, now)) is None:
        return "the certificate was not issued by this CA"
    return _find_host_problem(certificate, hosts) or _find_time_problem(
        "the certificate", certificate, now, ages=ages
    )


def find_foreign_problem(identity: Identity, hosts: Sequence[str], now: datetime) -> str | None:
    """Find why a certificate of another issuer can't be served at `now`.

    Keys may be of any kind, and the chain may have intermediates; without CAs in `ca.crt` the
    chain is not checked.
    """
    try:
        certificate, _ = load_pair(identity.certificate_pem, identity.key_pem)
    except ValueError as error:
        return f"the certificate is unusable: {error}"
    problem = _find_host_problem(certificate, hosts) or _find_time_problem(
        "the certificate", certificate, now, ages=False
    )
    if problem:
        return problem
    if identity.trust_pem and not is_vouched_for(identity.certificate_pem, identity.trust_pem, now):
        return "the certificate does not chain to a CA in ca.crt"
    return None


def is_vouched_for(chain_pem: bytes, trust_pem: bytes, now: datetime) -> bool:
    """Tell whether a chain, the server's certificate first, leads to a CA in `trust_pem`."""
    chain, trusted = load_certificates(chain_pem), list_living(trust_pem, now)
    return bool(chain) and _leads_to(chain[0], chain[1:], trusted)


def list_living(pem: bytes, now: datetime) -> list[x509.Certificate]:
    """List the certificates of a PEM file that have not expired; none where one is invalid."""
    return [each for each in load_certificates(pem) if now < each.not_valid_after_utc]


def find_issuer(
    certificate: x509.Certificate, authorities: Sequence[x509.Certificate]
) -> x509.Certificate | None:
    """Find the CA among `authorities` that issued a certificate."""
    return next((each for each in authorities if _is_issued_by(certificate, each)), None)


def find_other_owner(raw: dict[str, Any], stored: Identity) -> str | None:
    """Find why a Secret is not ours to write, as a clause; None where it is.

    `raw` is the Secret from the API server, `stored` its parsed data. An empty or invalid Secret is
    ours to fill, unless a field shows another owner.
    """
    metadata = raw.get("metadata", {})
    owners = metadata.get("ownerReferences") or ()
    manager = (metadata.get("labels") or {}).get(MANAGED_BY)
    if raw.get("type") != TLS:
        return f"its type is {raw.get('type')}, not {TLS}"
    if raw.get("immutable"):
        return "it is immutable"
    if owners:
        return f"{owners[0].get('kind')} {owners[0].get('name')} owns it"
    if any(key.startswith(_CERT_MANAGER) for key in metadata.get("annotations") or ()):
        return "cert-manager writes it"
    if manager not in (None, names.FIELD_MANAGER):
        return f"its label {MANAGED_BY} is {manager}"
    if manager is None and not stored.authority.key_pem and _is_pair(stored):
        return "its certificate was not issued by the operator"
    return None


def general_name(host: str) -> x509.GeneralName:
    """Convert a DNS name or IP address to the name in a certificate."""
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _leads_to(
    certificate: x509.Certificate,
    others: Sequence[x509.Certificate],
    trusted: Sequence[x509.Certificate],
) -> bool:
    if certificate in trusted or find_issuer(certificate, trusted) is not None:
        return True
    return any(
        _leads_to(other, [each for each in others if each != other], trusted)
        for other in others
        if _is_issued_by(certificate, other)
    )


def _is_issued_by(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm):
        return False
    return True


def _find_host_problem(certificate: x509.Certificate, hosts: Sequence[str]) -> str | None:
    try:
        extension = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
        covered = set(extension.value)
    except _UNREADABLE_NAMES:
        covered = set()
    missing = [host for host in hosts if not {general_name(host), _wildcard(host)} & covered]
    return f"the certificate does not cover {', '.join(missing)}" if missing else None


def _wildcard(host: str) -> x509.GeneralName:
    """Return the wildcard name that covers a DNS name: `*` stands for the first label."""
    return x509.DNSName("*." + host.partition(".")[2])


def _find_time_problem(
    what: str, certificate: x509.Certificate, now: datetime, *, ages: bool
) -> str | None:
    begin, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    if now < begin:
        return f"{what} is not valid before {begin.isoformat()}"
    if now >= end:
        return f"{what} expired at {end.isoformat()}"
    # The backdated hour is left out: it would be the most of a short lifetime.
    if ages and end - now < (end - begin - BACKDATED) * RENEW_AT:
        return f"{what} expires at {end.isoformat()}, in less than a third of its lifetime"
    return None


def _is_pair(identity: Identity) -> bool:
    try:
        load_pair(identity.certificate_pem, identity.key_pem)
    except ValueError:
        return False
    return True
