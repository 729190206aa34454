"""Replaces our certificates so that no client ever meets one that it can't trust.

A CA is followed by another in three steps. The new one joins the bundle, while the certificate
stays under the old one. The bundle goes to the clients, that is into the webhook configuration.
When it has been there long enough for every API server to have heard of it, the certificate is
issued by the new CA. The old CA stays in the bundle until it expires.
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
"""Every API server has heard of a changed configuration after this; mostly it takes less than a
second."""
CHECK = timedelta(seconds=10)
"""Two reads. A Secret that was lost and a configuration that was installed anew, without its
caBundle, heal within this; renewal alone would be content with a day."""

OLDER_KEPT = 8
"""CAs beside the newest: what was lost and made anew many times must not fill the Secret."""


@dataclass(frozen=True, slots=True)
class Lifetimes:
    """How long what we issue is good for; the pauses between two steps follow from it."""

    certificate: timedelta = LIFETIME
    authority: timedelta = CA_LIFETIME

    @property
    def check(self) -> timedelta:
        """Time between two checks: several fit into the time that is left for a renewal."""
        return min(CHECK, self._shortest / 10)

    @property
    def spread(self) -> timedelta:
        """How long clients have had a CA before it issues what they are shown."""
        return min(SPREAD, self._shortest / 4)

    @property
    def _shortest(self) -> timedelta:
        return min(self.certificate, self.authority)


@dataclass(frozen=True, slots=True)
class Trust:
    """The bundles of the clients, one for each webhook of the configuration."""

    bundles: tuple[bytes, ...]
    since: datetime
    """When they were first seen to be just these, so at the latest from then on."""

    def list_authorities(self, now: datetime) -> list[x509.Certificate]:
        """List the CAs that all bundles hold and that have not expired."""
        first, *others = self.bundles or (b"",)
        held = [load_certificates(other) for other in others]
        return [ca for ca in list_living(first, now) if all(ca in other for other in held)]


@dataclass(frozen=True, slots=True)
class Renewal:
    """What one process knows when it decides what to replace."""

    held: Identity | None
    """What it serves with."""
    trust: Trust
    hosts: Sequence[str]
    now: datetime
    lifetimes: Lifetimes

    def renew(self, stored: Identity | None) -> tuple[Identity, str | None]:
        """Plan the identity to store, and why it is not the `stored` one (None: it is).

        What is held is put back where nothing of use is stored.
        """
        wanted, no_authority = self._plan_authority(stored)
        wanted, no_bundle = self._plan_bundle(wanted)
        wanted, no_certificate = self._plan_certificate(wanted)
        return wanted, no_authority or no_bundle or no_certificate

    def choose_served(self, wanted: Identity) -> Identity:
        """Choose the identity to serve with: the stored one, or, as long as clients may not have
        heard of its CA, the one that is held and that they do trust."""
        held = self.held
        if held is None or held.certificate_pem == wanted.certificate_pem:
            return wanted
        issuer, holder = _find_issuer(wanted), _find_issuer(held)
        if issuer == holder or self._is_settled(issuer):
            return wanted
        if not self._is_of_use(held) or holder not in self.trust.list_authorities(self.now):
            return wanted
        if self._find_problem(held) and self._can_issue_again(held):
            return self._issue(held)
        return held

    def _plan_authority(self, stored: Identity | None) -> tuple[Identity, str | None]:
        now = self.now
        problem = (
            find_authority_problem(stored.authority, now) if stored else "no certificate is stored"
        )
        found = next((each for each in (stored, self.held) if each and self._can_sign(each)), None)
        if found is None:
            return Identity(issue_authority(now, self.lifetimes.authority), b"", b""), problem
        if find_authority_problem(found.authority, now) is None:
            return found, problem
        # It is old. The last certificate under it is a fresh one: it bridges the time until the
        # successor may issue, and the old CA's key is stored no longer.
        if self._can_issue_again(found):
            found = self._issue(found)
        successor = issue_authority(now, self.lifetimes.authority)
        return replace(found, authority=successor, older_pem=found.trust_pem), problem

    def _plan_bundle(self, identity: Identity) -> tuple[Identity, str | None]:
        """Keep each CA in the bundle until it expires: what clients trust is what some process may
        be serving with, whatever has become of the Secret meanwhile."""
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
        # Of an older CA, or broken: only that CA's key could issue it anew.
        if self._is_of_use(identity) and not self._is_settled(newest):
            return identity, None
        return self._issue(identity), problem or "all clients trust the new CA"

    def _issue(self, identity: Identity) -> Identity:
        """Return `identity` with a new certificate of its newest CA."""
        lifetime = self.lifetimes.certificate
        fresh = issue_identity(identity.authority, self.hosts, self.now, lifetime)
        return replace(fresh, older_pem=identity.older_pem)

    def _find_problem(self, identity: Identity) -> str | None:
        return find_certificate_problem(identity, self.hosts, self.now)

    def _is_of_use(self, identity: Identity) -> bool:
        """Tell whether an identity can be served, however old."""
        return find_certificate_problem(identity, self.hosts, self.now, ages=False) is None

    def _is_settled(self, authority: x509.Certificate | None) -> bool:
        """Tell whether every API server has had time to learn of a CA."""
        known_for = self.now - self.trust.since
        return (
            authority in self.trust.list_authorities(self.now)
            and known_for >= self.lifetimes.spread
        )

    def _can_sign(self, identity: Identity) -> bool:
        return find_authority_problem(identity.authority, self.now, ages=False) is None

    def _can_issue_again(self, identity: Identity) -> bool:
        """Tell whether the CA whose key we hold is the one that issued the certificate."""
        newest = load_certificates(identity.authority.certificate_pem)[:1]
        return self._can_sign(identity) and [_find_issuer(identity)] == newest


def _find_issuer(identity: Identity) -> x509.Certificate | None:
    certificates = load_certificates(identity.certificate_pem)
    authorities = load_certificates(identity.trust_pem)
    return find_issuer(certificates[0], authorities) if certificates else None
