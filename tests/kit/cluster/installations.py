"""Changes the installation within a block, and reads the webhook's certificate."""

from base64 import b64decode
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import yaml

from devcluster.installation import NAMESPACE, TEARDOWN_NAMESPACE, Installation
from gpushare.certs.identity import Identity
from tests.kit.bench import Bench, Json
from tests.kit.cluster.namespaces import expect_account
from tests.kit.values.manifests import build_pool

SECRETS = f"/api/v1/namespaces/{NAMESPACE}/secrets"
NAME = "gpushare-webhook-tls"
SECRET = f"{SECRETS}/{NAME}"


@contextmanager
def installed_with(bench: Bench, values: Mapping[str, str]) -> Iterator[Bench]:
    """Install with other values, one pool and no certificate within the block; then restore the
    standard installation."""
    Installation(bench.cluster, values).apply()
    forget_certificate(bench)
    bench.create_pool(build_pool())
    yield bench
    bench.operators.end_all()
    bench.operators.installation.apply()
    forget_certificate(bench)


@contextmanager
def installation_with(bench: Bench, values: Mapping[str, str]) -> Iterator[Installation]:
    """Apply the chart's objects with these values within the block; remove added ones after it."""
    installation = Installation(bench.cluster, values)
    installation.apply()
    try:
        yield installation
    finally:
        bench.operators.end_all()
        bench.operators.installation.apply()
        _delete_added(bench, installation.render())


@contextmanager
def teardown_jobs_allowed(bench: Bench) -> Iterator[Installation]:
    """Allow teardown Jobs within the block, for pools and processes. Added objects are removed
    after it, as by an upgrade of Helm."""
    installation = bench.operators.installation
    installation.teardown_jobs = True
    try:
        installation.apply()
        expect_account(bench, TEARDOWN_NAMESPACE)
        yield installation
    finally:
        bench.operators.end_all()
        rendered = installation.render()
        installation.teardown_jobs = False
        installation.apply()
        _delete_added(bench, rendered)


def _delete_added(bench: Bench, rendered: str) -> None:
    """Delete the objects that the standard installation does not have."""
    manifests = yaml.safe_load_all(bench.operators.installation.render())
    standard = {_identify(item) for item in manifests if item}
    items = [item for item in yaml.safe_load_all(rendered) if item]
    added = [item for item in items if _identify(item) not in standard]
    bench.cluster.kubectl(
        "delete", "--ignore-not-found", "-f", "-", stdin=yaml.safe_dump_all(added)
    )


def _identify(item: Json) -> tuple[str, str, str]:
    return item["kind"], item["metadata"].get("namespace", ""), item["metadata"]["name"]


def read_identity(secret: Json) -> Identity:
    """Parse the certificate in a Secret."""
    return Identity.from_secret_data({k: b64decode(v) for k, v in secret["data"].items()})


def forget_certificate(bench: Bench) -> None:
    """Delete the Secret, so that the next webhook starts without one."""
    if bench.cluster.api.exists(SECRET):
        bench.call("DELETE", SECRET)
