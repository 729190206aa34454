"""Runs the controller of another project beside a cluster: what its own manifests install is in the
cluster, its process on this machine, and its webhooks are called by URL.
"""

import contextlib
import os
import subprocess
import urllib.request
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import NameOID

from devcluster.cluster import Cluster
from devcluster.errors import ClusterError
from devcluster.installation import apply_crds, build_list
from devcluster.kubeconfig import build_token_kubeconfig, read_own_kubeconfig
from devcluster.ports import is_free
from devcluster.startup import tail
from devcluster.waiting import wait_until

Json = dict[str, Any]

_LOCAL = "127.0.0.1"
_LIFETIME = timedelta(days=365)
_TOKEN_SECONDS = 24 * 3600
_READY_SECONDS = 120
_CRD = "CustomResourceDefinition"
_WEBHOOKS = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
# What needs a network of pods: the process is here, and nothing else of it answers.
_OF_PODS = ("Deployment", "PodDisruptionBudget", "Service", "APIService", "ServiceMonitor")
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))


@dataclass(frozen=True)
class Place:
    """Where a controller runs: a folder of its own in the cluster's, and ports of this machine."""

    name: str
    folder: Path
    webhook: int
    health: int
    metrics: int
    ca_pem: bytes = field(repr=False)
    """Issuer of `tls.crt` (key: `tls.key`) in the folder, which is also there as `ca.crt`."""


@dataclass(frozen=True)
class Controller:
    """The running process of another project, which ends with the cluster at the latest."""

    name: str
    log: Path
    process: subprocess.Popen[bytes] = field(repr=False)

    @property
    def alive(self) -> bool:
        return self.process.poll() is None


def make_place(cluster: Cluster, name: str, *hosts: str) -> Place:
    """Choose free ports, and issue a certificate for 127.0.0.1 and `hosts`, its names as a Service.

    Raises :class:`ClusterError` where the cluster's block has no three ports left.
    """
    free = [port for port in reversed(cluster.ports.spare) if is_free(port)][:3]
    if len(free) < 3:
        raise ClusterError(f"{name} needs three ports of the cluster's block: stop some processes.")
    folder = cluster.logs.parent / name
    folder.mkdir(mode=0o700, exist_ok=True)
    certificate, key = _issue_certificate(hosts)
    for file, text in (("tls.crt", certificate), ("ca.crt", certificate), ("tls.key", key)):
        (folder / file).write_bytes(text)
    webhook, health, metrics = free
    return Place(name, folder, webhook, health, metrics, certificate)


def _issue_certificate(hosts: Sequence[str]) -> tuple[bytes, bytes]:
    """Issue a certificate that is its own CA, and its key, in PEM; a form that all read."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "devcluster")])
    names = [*map(x509.DNSName, hosts), x509.IPAddress(IPv4Address(_LOCAL))]
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + _LIFETIME)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem, pkcs1 = serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL
    plain = serialization.NoEncryption()
    return certificate.public_bytes(pem), key.private_bytes(pem, pkcs1, plain)


def read_manifests(text: str) -> list[Json]:
    """Read the manifests of a YAML stream, in C where that is installed: CRDs have megabytes."""
    return [each for each in yaml.load_all(text, Loader=_Loader) if each]


@contextlib.contextmanager
def running(
    cluster: Cluster,
    place: Place,
    manifests: Iterable[Json],
    command: Sequence[str],
    *,
    account: tuple[str, str],
    env: Mapping[str, str] | None = None,
) -> Iterator[Controller]:
    """Apply a project's manifests and run its controller for a block, which begins once its health
    port answers; then remove its CRDs with their objects, which it may have to release, its
    webhooks and the process.

    `account` is the namespace and name of the ServiceAccount under which it runs, by the variable
    KUBECONFIG. Raises :class:`ClusterError`.
    """
    # Webhooks before the process, since some write the CA into them.
    crds, webhooks = _install(cluster, place, manifests, account[0])
    log = f"{place.name}.log"
    kubeconfig = _write_account(cluster, place, *account)
    settings = {**os.environ, **(env or {}), "KUBECONFIG": str(kubeconfig)}
    process = cluster.spawn(command, log=log, env=settings)
    started = Controller(place.name, cluster.logs / log, process)
    try:
        _expect_ready(started, f"http://{_LOCAL}:{place.health}/readyz")
        yield started
    finally:
        try:
            if started.alive:
                _delete(cluster, crds)
            _delete(cluster, webhooks)
        finally:
            process.kill()
            process.wait()


def _install(
    cluster: Cluster, place: Place, manifests: Iterable[Json], namespace: str
) -> tuple[list[Json], list[Json]]:
    """Apply the manifests; return those of CRDs and webhooks."""
    found = [call_by_url(each, place) for each in manifests if each["kind"] not in _OF_PODS]
    crds = [each for each in found if each["kind"] == _CRD]
    webhooks = [each for each in found if each["kind"] in _WEBHOOKS]
    others = [each for each in found if each["kind"] not in (_CRD, *_WEBHOOKS)]
    apply_crds(cluster, crds)
    own = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
    _apply(cluster, [own, *others, *webhooks])
    return crds, webhooks


def _expect_ready(started: Controller, url: str) -> None:
    wait_until(
        lambda: not started.alive or _answers(url),
        expectation=f"{started.name} is ready",
        timeout_seconds=_READY_SECONDS,
        advice=lambda: tail(started.log),
    )
    if not started.alive:
        raise ClusterError(f"{started.name} ended at once:\n{tail(started.log)}")


def _answers(url: str) -> bool:
    try:
        with _direct.open(url, timeout=2):
            return True
    except OSError:
        return False


def _apply(cluster: Cluster, manifests: Sequence[Json]) -> None:
    if manifests:
        text = build_list(manifests)
        cluster.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=text)


def _delete(cluster: Cluster, manifests: Sequence[Json]) -> None:
    if manifests:
        text = build_list(manifests)
        cluster.kubectl("delete", "--ignore-not-found", "--timeout=120s", "-f", "-", stdin=text)


def _write_account(cluster: Cluster, place: Place, namespace: str, account: str) -> Path:
    """Write a kubeconfig of a ServiceAccount into the controller's folder."""
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token"
    answer = cluster.api.call("POST", path, {"spec": {"expirationSeconds": _TOKEN_SECONDS}})
    admin = read_own_kubeconfig(cluster.kubeconfig)
    kubeconfig = build_token_kubeconfig(
        admin,
        token=answer["status"]["token"],
        namespace=namespace,
        server=admin["clusters"][0]["cluster"]["server"],
    )
    file = place.folder / "kubeconfig"
    file.touch(mode=0o600)
    file.write_text(yaml.safe_dump(kubeconfig))
    return file


def call_by_url(manifest: Json, place: Place) -> Json:
    """Return a manifest whose webhooks are called at this machine."""
    if manifest["kind"] in _WEBHOOKS:
        webhooks = [
            {**each, "clientConfig": _locate(each["clientConfig"], place)}
            for each in manifest["webhooks"]
        ]
        return {**manifest, "webhooks": webhooks}
    conversion = (manifest.get("spec") or {}).get("conversion") or {}
    if manifest["kind"] == _CRD and (webhook := conversion.get("webhook")):
        at_url = {**webhook, "clientConfig": _locate(webhook["clientConfig"], place)}
        conversion = {**conversion, "webhook": at_url}
        return {**manifest, "spec": {**manifest["spec"], "conversion": conversion}}
    return manifest


def _locate(client: Json, place: Place) -> Json:
    path = (client.get("service") or {}).get("path", "")
    bundle = b64encode(place.ca_pem).decode()
    return {"url": f"https://{_LOCAL}:{place.webhook}{path}", "caBundle": bundle}
