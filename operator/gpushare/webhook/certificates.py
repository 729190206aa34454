"""Keeps the webhook's certificate valid in its Secret, in the configuration and in live TLS."""

import asyncio
import logging
import ssl
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from cryptography.hazmat.primitives.serialization import Encoding

from gpushare.certs.identity import Identity
from gpushare.certs.rotation import Lifetimes, Renewal, Trust
from gpushare.certs.validation import (
    LABELS,
    TLS,
    find_foreign_problem,
    find_other_owner,
    is_vouched_for,
)
from gpushare.kube.auth.credentials import load_pair
from gpushare.kube.client import ApiClient, Json
from gpushare.kube.errors import CALL_FAILURES, ApiError, describe_failure
from gpushare.kube.resources.secrets import Secret, create_secret, read_secret, replace_secret
from gpushare.kube.resources.webhook_configurations import (
    apply_ca_bundle,
    list_ca_bundles,
    read_configuration,
)
from gpushare.observe.metrics import Metrics
from gpushare.settings import Settings

log = logging.getLogger(__name__)

RETRY_SECONDS = 1.0
"""Time between two checks while there is no certificate to serve."""
_ATTEMPTS = 5
"""Attempts of one check, each after another process was faster."""


class Certificate:
    """The certificate of one process, and the TLS context that serves it.

    Several processes share one Secret: later ones adopt what the first one wrote. In the modes
    `cert-manager` and `provided` another writer owns the Secret, and this class only reads it.
    """

    def __init__(
        self,
        api: ApiClient,
        settings: Settings,
        metrics: Metrics,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ):
        self._api = api
        self._mode = settings.certificate_mode
        self._namespace = settings.namespace
        self._secret = settings.certificate_secret
        self._configuration = settings.webhook_configuration
        self._lifetimes = Lifetimes(
            timedelta(seconds=settings.certificate_lifetime_seconds),
            timedelta(seconds=settings.authority_lifetime_seconds),
        )
        self._metrics = metrics
        self._clock = clock
        self.usable = asyncio.Event()
        """Set while calls of the API server can succeed, according to the last check."""
        self._identity: Identity | None = None
        self._trust = Trust((), clock())
        self._installed: bool | None = None
        self._refusal: str | None = None
        self._serving: ssl.SSLContext | None = None
        service = f"{settings.webhook_service}.{settings.namespace}.svc"
        others = ("127.0.0.1", *settings.webhook_dns_names)
        self.hosts = (service, f"{service}.cluster.local", *others)
        """Names by which the API server may reach the webhook, its Service's first."""
        self.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.tls.minimum_version = ssl.TLSVersion.TLSv1_2
        self.tls.sni_callback = self._choose_context
        """TLS context of the listener. Each handshake takes a new context with the newest
        certificate and key: one that is loaded twice can pair an old key with the new certificate.
        Until there is a certificate, handshakes fail."""

    @property
    def trust_pem(self) -> bytes | None:
        """The CAs in the configuration by which the API server trusts us; None where it has none,
        so that the API server uses those of its own machine."""
        trusted = self._trust.list_authorities(self._clock())
        return b"".join(ca.public_bytes(Encoding.PEM) for ca in trusted) or None

    def find_problem(self) -> str | None:
        """Find why calls of the API server fail; None where they don't."""
        if self._identity is None:
            return self._refusal or "no certificate yet"
        if not self._installed:
            return f"MutatingWebhookConfiguration {self._configuration} is not installed"
        if self._identity.expires <= self._clock():
            expired = f"the certificate expired at {self._identity.expires.isoformat()}"
            return f"{expired}: {self._refusal}" if self._refusal else expired
        return self._find_distrust(self._identity)

    async def run(self) -> None:
        """Check for ever; after a failure the next check tries again."""
        while True:
            try:
                await self.ensure()
            except CALL_FAILURES as error:
                log.warning("certificate not checked: %s", describe_failure(error))
            if self.find_problem() is None:
                self.usable.set()
            else:
                self.usable.clear()
            seconds = self._lifetimes.check.total_seconds()
            await asyncio.sleep(seconds if self._identity else RETRY_SECONDS)

    async def ensure(self) -> None:
        """Check the Secret, the live TLS context and the caBundle once, in this order.

        Raises `ApiError` and connection errors; a configuration that is not installed is a
        warning only, since it may come later.
        """
        for _ in range(_ATTEMPTS - 1):
            try:
                await self._check()
            except ApiError as error:
                if not error.is_conflict:
                    raise
                log.debug("another process was first (%s); checking again", error)
            else:
                return
        await self._check()

    async def _check(self) -> None:
        # Read before the Secret and written after it, at this version only: a process that reads a
        # newer configuration reads a newer Secret too, so a bundle is never replaced by an older.
        configuration = await read_configuration(self._api, self._configuration)
        self._observe_configuration(configuration)
        secret = await read_secret(self._api, self._namespace, self._secret)
        if self._mode == "self":
            stored, refusal = await self._renew(secret)
            identity = stored and self._build_renewal().choose_served(stored)
        else:
            stored, refusal = self._adopt(secret)
            identity = stored
        refusal = self._serve(identity) or refusal
        self._note_refusal(refusal)
        if refusal:
            # The process goes on with its certificate; its CA is written only if it is missing.
            current = self._identity
            stored = current if current and self._find_distrust(current) else None
        # In mode `cert-manager` its cainjector writes the bundle; where the Secret has no CA, the
        # chart's value stays.
        bundle = b"" if stored is None else stored.trust_pem
        if configuration is None or self._mode == "cert-manager" or not bundle:
            return
        if await apply_ca_bundle(self._api, self._configuration, configuration, bundle):
            log.info("wrote the caBundle of %s", self._configuration)
        self._observe_trust((bundle,))

    async def _renew(self, secret: Secret | None) -> tuple[Identity | None, str | None]:
        """Return the identity of mode `self`, stored if it is new, or why that was refused."""
        stored = Identity.from_secret_data(secret.data) if secret else None
        identity, reason = self._build_renewal().renew(stored)
        if reason is None:
            return identity, None
        name, data = f"{self._namespace}/{self._secret}", identity.to_secret_data()
        if secret is None or stored is None:
            await create_secret(
                self._api, self._namespace, self._secret, data, kind=TLS, labels=LABELS
            )
        elif owner := find_other_owner(secret.raw, stored):
            is_ours = bool(stored.authority.key_pem)
            serves = is_ours and find_foreign_problem(stored, self.hosts, self._clock()) is None
            return (stored if serves else self._identity), (
                f"Secret {name} is not renewed ({reason}) because {owner}. Delete the Secret, or "
                "set webhook.certificate.mode to cert-manager or provided"
            )
        else:
            await replace_secret(self._api, self._namespace, self._secret, secret, data)
        log.info("wrote Secret %s: %s", name, reason)
        return identity, None

    def _build_renewal(self) -> Renewal:
        now = self._clock()
        return Renewal(self._identity, self._trust, self.hosts, now, self._lifetimes)

    def _adopt(self, secret: Secret | None) -> tuple[Identity | None, str | None]:
        """Return the identity that another writer stored; the current one if that is invalid."""
        name = f"{self._namespace}/{self._secret}"
        issues, run = self._mode == "cert-manager", f"run: kubectl -n {self._namespace}"
        if secret is None:
            remedy = (
                f"To see why, {run} describe certificate.cert-manager.io gpushare-webhook"
                if issues
                else "Create it with tls.crt, tls.key and ca.crt"
            )
            return self._identity, f"Secret {name} is missing. {remedy}"
        stored = Identity.from_secret_data(secret.data)
        # Only the Service's name: certificates of others need not have this machine's names.
        problem = find_foreign_problem(stored, self.hosts[:1], self._clock())
        if problem is None:
            return stored, None
        remedy = (
            f"To have it reissued, {run} delete secret {self._secret}"
            if issues
            else "Replace its tls.crt, tls.key and ca.crt"
        )
        return self._identity, f"Secret {name} is rejected: {problem}. {remedy}"

    def _serve(self, identity: Identity | None) -> str | None:
        """Serve with `identity` from the next handshake on; return why not where TLS refuses it."""
        if identity is None or identity == self._identity:
            return None
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        try:
            load_identity(context, identity)
        except ValueError as error:
            return f"Secret {self._namespace}/{self._secret} is rejected by TLS: {error}"
        self._identity, self._serving = identity, context
        self._metrics.certificate_expiry.set(identity.expires.timestamp())
        log.info("serving with a certificate until %s", identity.expires.isoformat())
        return None

    def _choose_context(
        self, connection: ssl.SSLObject, name: str | None, context: ssl.SSLContext
    ) -> int | None:
        if self._serving is None:
            return ssl.ALERT_DESCRIPTION_INTERNAL_ERROR
        connection.context = self._serving
        return None

    def _find_distrust(self, identity: Identity) -> str | None:
        bundles = self._trust.bundles
        if self._mode == "provided" and bundles == (b"",):
            return None
        now = self._clock()
        if all(is_vouched_for(identity.certificate_pem, bundle, now) for bundle in bundles):
            return None
        problem = (
            f"MutatingWebhookConfiguration {self._configuration} does not trust the webhook's CA, "
            "so the API server cannot call the webhook"
        )
        if self._mode == "cert-manager":
            return (
                f"{problem}. If webhook.caBundle is set, correct it. Otherwise check the "
                "cainjector of cert-manager. Run: "
                "kubectl get pods -A -l app.kubernetes.io/name=cainjector"
            )
        if self._mode == "provided":
            secret = f"Secret {self._namespace}/{self._secret}"
            return f"{problem}. Set ca.crt in {secret}, or webhook.caBundle, to its CA"
        return (
            f"{problem}. The CA is written again within {self._lifetimes.check.total_seconds():g} "
            "s. If not, the log's lines 'certificate not checked' show why"
        )

    def _observe_configuration(self, configuration: Json | None) -> None:
        if configuration is None and self._installed is not False:
            log.warning(
                "MutatingWebhookConfiguration %s is not installed: the webhook is not called",
                self._configuration,
            )
        self._installed = configuration is not None
        self._observe_trust(list_ca_bundles(configuration) if configuration else ())

    def _observe_trust(self, bundles: tuple[bytes, ...]) -> None:
        if bundles != self._trust.bundles:
            self._trust = Trust(bundles, self._clock())

    def _note_refusal(self, refusal: str | None) -> None:
        if refusal != self._refusal:
            log.log(logging.WARNING if refusal else logging.INFO, refusal or "the Secret is valid")
        self._refusal = refusal
        self._metrics.certificate_refused.set(refusal is not None)


def load_identity(tls: ssl.SSLContext, identity: Identity) -> None:
    """Load the certificate of `identity` into a TLS context. Raises ValueError where it is
    unusable."""
    load_pair(tls, identity.certificate_pem, identity.key_pem)
