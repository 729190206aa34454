"""Webhooks that share a certificate, and API servers that hear of its CA late, as a value each."""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from gpushare.certs.identity import Identity
from gpushare.certs.rotation import Lifetimes, Renewal, Trust
from gpushare.certs.validation import is_vouched_for

HOSTS = ("gpushare-webhook.gpushare-system.svc", "127.0.0.1")
START = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass
class Replica:
    """One webhook process: what it serves with, and what it saw of the configuration."""

    held: Identity | None = None
    ready: bool = False
    """Whether it was trusted by all once: it gets no calls before."""
    trust: Trust = field(default_factory=lambda: Trust((), START))

    def see(self, bundle: bytes, now: datetime) -> None:
        if self.trust.bundles != (bundle,):
            self.trust = Trust((bundle,), now)


@dataclass
class Rotation:
    """A Secret, a configuration and two replicas, in a time that only passes by `wait`."""

    lifetimes: Lifetimes
    lag: timedelta
    """How old an API server's view of the configuration may be."""
    now: datetime = START
    stored: Identity | None = None
    replicas: list[Replica] = field(default_factory=lambda: [Replica(), Replica()])
    reasons: list[str] = field(default_factory=list)
    """Of each write of the Secret."""
    _bundles: list[tuple[datetime, bytes]] = field(
        default_factory=lambda: [(START - timedelta(days=1), b"")]
    )

    def start(self) -> None:
        """Both replicas come up, and everybody hears of it."""
        self.check(0)
        self.check(1)
        self.wait(self.lag)
        self.expect_served()

    def check(self, number: int) -> None:
        """The check of one replica, as `webhook.certificate` does it."""
        replica = self.replicas[number]
        replica.see(self._bundles[-1][1], self.now)
        renewal = Renewal(replica.held, replica.trust, HOSTS, self.now, self.lifetimes)
        wanted, reason = renewal.renew(self.stored)
        if reason is not None:
            self.stored = wanted
            self.reasons.append(reason)
        replica.held = renewal.choose_served(wanted)
        if self._bundles[-1][1] != wanted.trust_pem:
            self._bundles.append((self.now, wanted.trust_pem))
        replica.see(wanted.trust_pem, self.now)

    def wait(self, time: timedelta) -> None:
        self.now += time

    def restart(self, number: int) -> None:
        self.replicas[number] = Replica(trust=Trust((), self.now))

    def expect_served(self) -> None:
        """Whoever asks now, by a view as old as may be, meets a certificate that it can trust."""
        for replica in self.replicas:
            problem = self._find_problem(replica)
            replica.ready = replica.ready or problem is None
            assert problem is None or not replica.ready, f"{problem}: {self.reasons}"

    def is_served_by_all(self) -> bool:
        return all(replica.ready for replica in self.replicas)

    def _find_problem(self, replica: Replica) -> str | None:
        if replica.held is None:
            return "nothing to serve with"
        if replica.held.expires <= self.now:
            return "an expired certificate is served"
        begin = self.now - self.lag
        last_before = max(at for at, _ in self._bundles if at <= begin)
        views = [bundle for at, bundle in self._bundles if at >= last_before]
        chain = replica.held.certificate_pem
        if all(is_vouched_for(chain, view, self.now) for view in views):
            return None
        return "a certificate is served that some don't trust"
