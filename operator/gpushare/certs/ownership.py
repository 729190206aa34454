"""Whose the Secret of the certificate is: what somebody else keeps there is never overwritten."""

from typing import Any, Final

from gpushare import names
from gpushare.certs.identity import Identity, load_pair

TLS: Final = "kubernetes.io/tls"
MANAGED_BY: Final = "app.kubernetes.io/managed-by"
LABELS: Final = {MANAGED_BY: names.FIELD_MANAGER}
"""Of a Secret that we made."""
_CERT_MANAGER: Final = "cert-manager.io/"


def find_other_owner(raw: dict[str, Any], stored: Identity) -> str | None:
    """Why a Secret is not ours to write, as a sentence; None where it is.

    `raw` is the Secret as the API server has it, `stored` what its data says. An empty or broken
    one is ours to fill, unless something says whose it is.
    """
    metadata = raw.get("metadata", {})
    owners = metadata.get("ownerReferences") or ()
    manager = (metadata.get("labels") or {}).get(MANAGED_BY)
    if raw.get("type") != TLS:
        return f"its type is {raw.get('type')}, not {TLS}"
    if raw.get("immutable"):
        return "it is immutable"
    if owners:
        return f"it belongs to {owners[0].get('kind')} {owners[0].get('name')}"
    if any(key.startswith(_CERT_MANAGER) for key in metadata.get("annotations") or ()):
        return "cert-manager writes it"
    if manager not in (None, names.FIELD_MANAGER):
        return f"its label {MANAGED_BY} is {manager}"
    if manager is None and not stored.authority.key_pem and _is_pair(stored):
        return "it holds a certificate that is not ours"
    return None


def _is_pair(identity: Identity) -> bool:
    try:
        load_pair(identity.certificate_pem, identity.key_pem)
    except ValueError:
        return False
    return True
