"""TLS contexts from certificates in memory."""

import ssl
import tempfile
from pathlib import Path
from typing import Any


def build_client_tls(
    authorities_pem: bytes | None = None, *, server_name: str | None = None, verify: bool = True
) -> ssl.SSLContext:
    """Build a context for connections to a server that one of these CAs vouches for; without CAs,
    one of this machine's.

    The server's certificate is checked against `server_name` where there is one, instead of the
    host's name. Raises ssl.SSLError (an OSError) or ValueError where these are no certificates.
    """
    tls = _ClientContext(ssl.PROTOCOL_TLS_CLIENT)
    tls.server_name = server_name
    if not verify:
        tls.check_hostname = False
        tls.verify_mode = ssl.CERT_NONE
    elif authorities_pem is None:
        tls.load_default_certs()
    else:
        tls.load_verify_locations(cadata=authorities_pem.decode("ascii"))
        # As kubectl does: what is named is trusted, even where it is no root.
        tls.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    return tls


def load_pair(tls: ssl.SSLContext, certificate_pem: bytes, key_pem: bytes) -> None:
    """Put a certificate with its key into a TLS context. Raises ssl.SSLError (an OSError) where
    they are of no use there."""
    # OpenSSL's loader takes files only; these are gone before the block ends.
    with tempfile.TemporaryDirectory(prefix="gpushare-") as folder:
        chain, key = Path(folder, "tls.crt"), Path(folder, "tls.key")
        key.touch(mode=0o600)
        chain.write_bytes(certificate_pem)
        key.write_bytes(key_pem)
        # Without a password OpenSSL would ask for one on the terminal.
        tls.load_cert_chain(chain, key, password="")


class _ClientContext(ssl.SSLContext):
    """A context with a server name of its own: aiohttp uses the host's, behind a proxy always."""

    server_name: str | None = None

    def wrap_bio(
        self,
        incoming: ssl.MemoryBIO,
        outgoing: ssl.MemoryBIO,
        server_side: bool = False,
        server_hostname: str | bytes | None = None,
        session: Any = None,
    ) -> ssl.SSLObject:
        name = self.server_name or server_hostname
        return super().wrap_bio(incoming, outgoing, server_side, name, session)
