"""Both sides of TLS with the webhook."""

import ssl
from datetime import UTC, datetime
from typing import Any

from gpushare.certs.issue import issue_authority, issue_identity
from gpushare.webhook.certificate import load_identity

HOST = "gpushare-webhook.gpushare-system.svc"


def build_tls() -> tuple[ssl.SSLContext, ssl.SSLContext, Any]:
    """A server's context with a certificate, a client's that trusts only its CA, and the CA."""
    authority = issue_authority(datetime.now(UTC))
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    load_identity(server, issue_identity(authority, (HOST, "127.0.0.1"), datetime.now(UTC)))
    trusting = ssl.create_default_context(cadata=authority.certificate_pem.decode())
    return server, trusting, authority
