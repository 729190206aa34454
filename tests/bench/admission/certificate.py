"""The certificate of a server that is measured without the operator."""

from datetime import UTC, datetime
from pathlib import Path

from gpushare.certs.issue import issue_authority, issue_identity


def write_certificate(folder: Path) -> tuple[Path, Path]:
    """Files for 127.0.0.1: the certificate with its key, and the CA that it is trusted by."""
    now = datetime.now(UTC)
    authority = issue_authority(now)
    identity = issue_identity(authority, ("127.0.0.1",), now)
    certificate, ca = folder / "tls.pem", folder / "ca.pem"
    certificate.write_bytes(identity.key_pem + identity.certificate_pem)
    ca.write_bytes(authority.certificate_pem)
    return certificate, ca
