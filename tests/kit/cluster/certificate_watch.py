"""What a watch of the certificate's Secret saw: which certificates and CAs there were."""

from base64 import b64decode
from dataclasses import dataclass
from typing import Any

from devcluster.installation import NAMESPACE
from gpushare.certs.identity import Identity
from tests.kit.bench import Bench
from tests.kit.cluster.watch_recording import Recording

Json = dict[str, Any]

SECRETS = f"/api/v1/namespaces/{NAMESPACE}/secrets"
NAME = "gpushare-webhook-tls"
SECRET = f"{SECRETS}/{NAME}"


@dataclass(frozen=True)
class CertificateWatch:
    """Certificates and CAs in the order in which they were stored; the first is no rotation."""

    recording: Recording

    @property
    def certificate_rotations(self) -> int:
        return len({identity.certificate_pem for identity in self._stored()}) - 1

    @property
    def authority_rotations(self) -> int:
        return len({identity.authority.certificate_pem for identity in self._stored()}) - 1

    def _stored(self) -> list[Identity]:
        return [
            read_identity(secret)
            for secret in list(self.recording.history)
            if secret["metadata"]["name"] == NAME
        ]


def read_identity(secret: Json) -> Identity:
    """What a Secret as the API server has it holds."""
    return Identity.from_secret_data({k: b64decode(v) for k, v in secret["data"].items()})


def forget_certificate(bench: Bench) -> None:
    """Have the next webhook begin without a Secret."""
    if bench.cluster.api.exists(SECRET):
        bench.call("DELETE", SECRET)
