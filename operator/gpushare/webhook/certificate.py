"""Keeps the webhook's certificate good: in its Secret, in the configuration, in live TLS."""

import asyncio
import logging
import ssl
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from gpushare.certs.identity import Identity
from gpushare.certs.issue import renew
from gpushare.kube.client import ApiServer
from gpushare.kube.errors import CALL_FAILURES, ApiError
from gpushare.kube.secrets import create_secret, read_secret, replace_secret
from gpushare.kube.webhookconfigurations import apply_ca_bundle
from gpushare.observe.metrics import Metrics
from gpushare.settings import Settings

log = logging.getLogger(__name__)

CHECK_SECONDS = 10.0
"""Two reads. A Secret that was lost and a configuration that was installed anew, without its
caBundle, heal within this; renewal alone would be content with a day."""
RETRY_SECONDS = 1.0
"""The same, while nothing can be served at all."""


class Certificate:
    """The certificate of one process, and the TLS context that serves it.

    Several processes share one Secret: who comes second adopts what the first one wrote.
    """

    def __init__(
        self,
        api: ApiServer,
        settings: Settings,
        metrics: Metrics,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ):
        self._api = api
        self._namespace = settings.namespace
        self._secret = settings.certificate_secret
        self._configuration = settings.webhook_configuration
        self.hosts = list_hosts(settings)
        self._metrics = metrics
        self._clock = clock
        self._identity: Identity | None = None
        self._installed: bool | None = None
        self.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.tls.minimum_version = ssl.TLSVersion.TLSv1_2
        """Handshakes fail until the first certificate is loaded into it."""

    @property
    def trust_pem(self) -> bytes | None:
        """The CA by which the API server is to know us; None where there is none yet."""
        return None if self._identity is None else self._identity.authority.certificate_pem

    def find_flaw(self) -> str | None:
        """Why calls of the API server fail or soon will; None where they don't."""
        if self._identity is None:
            return "no certificate yet"
        if not self._installed:
            return f"{self._configuration} does not trust our CA yet"
        if self._identity.expires <= self._clock():
            return f"the certificate expired at {self._identity.expires.isoformat()}"
        return None

    async def run(self) -> None:
        """Check for ever; a failure is logged and met by the next check."""
        while True:
            try:
                await self.ensure()
            except CALL_FAILURES as error:
                log.warning("certificate not checked: %s", error or type(error).__name__)
            await asyncio.sleep(CHECK_SECONDS if self._identity else RETRY_SECONDS)

    async def ensure(self) -> None:
        """One check: Secret, live TLS context, caBundle, in this order.

        Raises `ApiError` and connection errors; a configuration that is not installed is a
        warning only, since it may come later.
        """
        identity = await self._ensure_secret()
        if identity != self._identity:
            load_identity(self.tls, identity)
            self._identity = identity
            self._metrics.certificate_expiry.set(identity.expires.timestamp())
        await self._ensure_trust(identity)

    async def _ensure_trust(self, identity: Identity) -> None:
        try:
            wrote = await apply_ca_bundle(
                self._api, self._configuration, identity.authority.certificate_pem
            )
        except ApiError as error:
            if not error.is_not_found:
                raise
            if self._installed is not False:
                log.warning(
                    "MutatingWebhookConfiguration %s is not installed: no pod is sent here",
                    self._configuration,
                )
            self._installed = False
            return
        self._installed = True
        if wrote:
            log.info("wrote the caBundle of %s", self._configuration)

    async def _ensure_secret(self) -> Identity:
        while True:
            secret = await read_secret(self._api, self._namespace, self._secret)
            stored = Identity.from_secret_data(secret.data) if secret else None
            identity, reason = renew(stored, self._identity, self.hosts, self._clock())
            if reason is None:
                return identity
            data = identity.to_secret_data()
            try:
                if secret is None:
                    await create_secret(self._api, self._namespace, self._secret, data)
                else:
                    await replace_secret(self._api, self._namespace, self._secret, secret, data)
            except ApiError as error:
                if not error.is_conflict:
                    raise
                log.info("another process wrote Secret %s first; reading it again", self._secret)
                continue
            log.info("wrote Secret %s/%s: %s", self._namespace, self._secret, reason)
            return identity


def list_hosts(settings: Settings) -> tuple[str, ...]:
    """Where the API server may reach the webhook: its Service, this machine, and what is set."""
    service = f"{settings.webhook_service}.{settings.namespace}.svc"
    return (service, f"{service}.cluster.local", "127.0.0.1", *settings.webhook_dns_names)


def load_identity(tls: ssl.SSLContext, identity: Identity) -> None:
    """Serve with `identity` from the next handshake on; connections that exist are untouched."""
    # OpenSSL's loader takes files only; these are gone before the block ends.
    with tempfile.TemporaryDirectory(prefix="gpushare-") as folder:
        chain, key = Path(folder, "tls.crt"), Path(folder, "tls.key")
        key.touch(mode=0o600)
        chain.write_bytes(identity.certificate_pem)
        key.write_bytes(identity.key_pem)
        tls.load_cert_chain(chain, key)
