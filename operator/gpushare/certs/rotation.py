"""Replaces our certificates without a moment at which a client does not trust the server's.

A CA is replaced in three steps. The new CA is added to the bundle, while the old one still signs
the certificate. The bundle is written to the clients, that is into the webhook configuration. When
every API server has had time to read it, the new CA signs the certificate. The old CA stays in the
bundle until it expires.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from gpushare.certs.identity import Identity, load_certificates
from gpushare.certs.issue import CA_LIFETIME, LIFETIME, issue_authority, issue_identity
from gpushare.certs.validation import (
    find_authority_problem,
    find_certificate_problem,
    find_issuer,
    list_living,
)

SPREAD = timedelta(seconds=30)
"""Time after which every API server has read a changed configuration; mostly it takes less than a
second."""
CHECK = timedelta(seconds=10)
"""Time between two checks, of two reads each: a lost Secret or a new configuration without caBundle
is repaired within it. For renewal a day would do."""

OLDER_KEPT = 8
"""Limit of CAs beside the newest, so that repeated losses of the Secret do not fill it."""


@dataclass(frozen=True, slots=True)
class Lifetimes:
    """Lifetimes of what we issue; the times between two steps follow from them."""

    certificate: timedelta = LIFETIME
    authority: timedelta = CA_LIFETIME

    @property
    def check(self) -> timedelta:
        """Time between two checks; several checks fit into the time left for a renewal."""
        return min(CHECK, self._shortest / 10)

    @property
    def spread(self) -> timedelta:
        """Time from a CA's appearance in the bundles to its first served certificate."""
        return min(SPREAD, self._shortest / 4)

    @property
    def _shortest(self) -> timedelta:
        return min(self.certificate, self.authority)


@dataclass(frozen=True, slots=True)
class Trust:
    """The CA bundles of the clients, one for each webhook of the configuration."""

    bundles: tuple[bytes, ...]
    since: datetime
    """When these bundles were first read."""

    def list_authorities(self, now: datetime) -> list[x509.Certificate]:
        """List the CAs that all bundles contain and that have not expired."""
        first, *others = self.bundles or (b"",)
        loaded = [load_certificates(other) for other in others]
        return [ca for ca in list_living(first, now) if all(ca in other for other in loaded)]


@dataclass(frozen=True, slots=True)
class Renewal:
    """Plans the next Secret from what one process serves and what clients trust."""

    served: Identity | None
    """The identity that this process serves with."""
    trust: Trust
    hosts: Sequence[str]
    now: datetime
    lifetimes: Lifetimes

    def renew(self, stored: Identity | None) -> tuple[Identity, str | None]:
        """Plan the identity to store; return it, and why it differs from `stored` (None: equal).

        Where nothing valid is stored, the served identity is stored again.
        """
        wanted, no_authority = self._plan_authority(stored)
        wanted, no_bundle = self._plan_bundle(wanted)
        wanted, no_certificate = self._plan_certificate(wanted)
        return wanted, no_authority or no_bundle or no_certificate

    def choose_served(self, wanted: Identity) -> Identity:
        """Choose the identity to serve with: `wanted`, or the served one as long as clients trust
        it and may not know the CA of `wanted`."""
        served = self.served
        if served is None or served.certificate_pem == wanted.certificate_pem:
            return wanted
        issuer, current = _find_issuer(wanted), _find_issuer(served)
        if issuer == current or self._is_settled(issuer):
            return wanted
        if not self._is_usable(served) or current not in self.trust.list_authorities(self.now):
            return wanted
        if self._find_problem(served) and self._can_issue_again(served):
            return self._issue(served)
        return served

    def _plan_authority(self, stored: Identity | None) -> tuple[Identity, str | None]:
        now = self.now
        problem = (
            find_authority_problem(stored.authority, now) if stored else "no certificate is stored"
        )
        usable = (each for each in (stored, self.served) if each and self._can_sign(each))
        if (current := next(usable, None)) is None:
            return Identity(issue_authority(now, self.lifetimes.authority), b"", b""), problem
        if find_authority_problem(current.authority, now) is None:
            return current, problem
        # The CA is old. It signs a last certificate for the time until its successor may sign, and
        # its key is stored no longer.
        if self._can_issue_again(current):
            current = self._issue(current)
        successor = issue_authority(now, self.lifetimes.authority)
        return replace(current, authority=successor, older_pem=current.trust_pem), problem

    def _plan_bundle(self, identity: Identity) -> tuple[Identity, str | None]:
        """Keep each CA that clients trust in the bundle until it expires, even if the Secret was
        lost: some process may serve with its certificate."""
        newest = load_certificates(identity.authority.certificate_pem)
        older = list_living(identity.older_pem, self.now)
        known, trusted = [*newest, *older], self.trust.list_authorities(self.now)
        kept = [*older, *(ca for ca in trusted if ca not in known)][:OLDER_KEPT]
        if kept == load_certificates(identity.older_pem):
            return identity, None
        older_pem = b"".join(ca.public_bytes(Encoding.PEM) for ca in kept)
        return replace(identity, older_pem=older_pem), "the CA bundle is out of date"

    def _plan_certificate(self, identity: Identity) -> tuple[Identity, str | None]:
        problem = self._find_problem(identity)
        newest = load_certificates(identity.authority.certificate_pem)[0]
        if _find_issuer(identity) == newest:
            return (self._issue(identity), problem) if problem else (identity, None)
        # The certificate is of an older CA, whose key could renew it, or invalid.
        if self._is_usable(identity) and not self._is_settled(newest):
            return identity, None
        return self._issue(identity), problem or "all clients trust the new CA"

    def _issue(self, identity: Identity) -> Identity:
        """Issue a new certificate of the newest CA of `identity`."""
        lifetime = self.lifetimes.certificate
        fresh = issue_identity(identity.authority, self.hosts, self.now, lifetime)
        return replace(fresh, older_pem=identity.older_pem)

    def _find_problem(self, identity: Identity) -> str | None:
        return find_certificate_problem(identity, self.hosts, self.now)

    def _is_usable(self, identity: Identity) -> bool:
        """Tell whether an identity can be served, however old."""
        return find_certificate_problem(identity, self.hosts, self.now, ages=False) is None

    def _is_settled(self, authority: x509.Certificate | None) -> bool:
        """Tell whether every API server has had time to read a CA."""
        known_for = self.now - self.trust.since
        return (
            authority in self.trust.list_authorities(self.now)
            and known_for >= self.lifetimes.spread
        )

    def _can_sign(self, identity: Identity) -> bool:
        return find_authority_problem(identity.authority, self.now, ages=False) is None

    def _can_issue_again(self, identity: Identity) -> bool:
        """Tell whether the CA whose key we have issued the certificate."""
        newest = load_certificates(identity.authority.certificate_pem)[:1]
        return self._can_sign(identity) and [_find_issuer(identity)] == newest


def _find_issuer(identity: Identity) -> x509.Certificate | None:
    certificates = load_certificates(identity.certificate_pem)
    authorities = load_certificates(identity.trust_pem)
    return find_issuer(certificates[0], authorities) if certificates else None
