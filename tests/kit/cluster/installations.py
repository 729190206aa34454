"""Installations other than the standard one, and the webhook's certificate of an installation."""

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
    """With one pool and no certificate yet, for a block; then it is the standard one again."""
    Installation(bench.cluster, values).apply()
    forget_certificate(bench)
    bench.create_pool(build_pool())
    yield bench
    bench.operators.end_all()
    bench.operators.installation.apply()
    forget_certificate(bench)


@contextmanager
def installation_with(bench: Bench, values: Mapping[str, str]) -> Iterator[Installation]:
    """The chart's objects with these values, for a block; what they add goes with it."""
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
    """For a block pools may have Jobs remove the kernel module, and processes are told so. What the
    switch adds to the cluster goes with it, as at an upgrade by Helm."""
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
    """Delete what the standard installation does not have."""
    found = yaml.safe_load_all(bench.operators.installation.render())
    standard = {_identify(item) for item in found if item}
    items = [item for item in yaml.safe_load_all(rendered) if item]
    added = [item for item in items if _identify(item) not in standard]
    bench.cluster.kubectl(
        "delete", "--ignore-not-found", "-f", "-", stdin=yaml.safe_dump_all(added)
    )


def _identify(item: Json) -> tuple[str, str, str]:
    return item["kind"], item["metadata"].get("namespace", ""), item["metadata"]["name"]


def read_identity(secret: Json) -> Identity:
    """What a Secret as the API server has it holds."""
    return Identity.from_secret_data({k: b64decode(v) for k, v in secret["data"].items()})


def forget_certificate(bench: Bench) -> None:
    """Have the next webhook begin without a Secret."""
    if bench.cluster.api.exists(SECRET):
        bench.call("DELETE", SECRET)
