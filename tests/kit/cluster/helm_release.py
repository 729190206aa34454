"""Starts a cluster for a release of the chart, since Helm refuses objects of others."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from devcluster.cluster import Cluster
from devcluster.installation import NAMESPACE
from devcluster.release import Release
from tests.kit.bench import VERIFIED, Bench, Json
from tests.kit.cluster.audit_log import expect_rights_sufficed
from tests.kit.cluster.expect import expect
from tests.kit.cluster.namespaces import expect_account
from tests.kit.cluster.object_diff import take_inventory
from tests.kit.cluster.operator_processes import KUBELET_PERIOD_SECONDS
from tests.kit.cluster.sharing_pools import plugin_uids

GPU_NODES = ("n1", "n2")
OUTLIVING = {
    "customresourcedefinitions.apiextensions.k8s.io /gpusharepools.gpushare.io",
    "customresourcedefinitions.apiextensions.k8s.io /gpushareadmissiontables.gpushare.io",
    "apiservices.apiregistration.k8s.io /v1alpha1.gpushare.io",
    "gpusharepools.gpushare.io /training",
}
"""Objects that outlive the uninstallation of a release."""


@contextmanager
def start_bare_cluster(name: str, folder: Path) -> Iterator[Bench]:
    """Start a cluster with two GPU nodes and only our namespace. At its end, check that none of our
    processes was refused a request."""
    cluster = Cluster(
        f"{name}-{os.getpid()}", folder, kubelet_period_seconds=KUBELET_PERIOD_SECONDS
    )
    cluster.up()
    try:
        bench = Bench(cluster)
        bench.install("Professional")
        bench.add_nodes(*GPU_NODES)
        cluster.kubectl("create", "namespace", NAMESPACE)
        Release(cluster).prepare()
        expect_account(bench, NAMESPACE)
        yield bench
        expect_rights_sufficed(bench.audit)
    finally:
        cluster.down()


def list_nodes(bench: Bench) -> list[Json]:
    return [bench.node(name) for name in GPU_NODES]


@contextmanager
def no_node_notices(bench: Bench) -> Iterator[None]:
    """Check that no plugin was restarted within the block, and no label has changed.

    The label of verified isolation is left out: it depends on a running operator.
    """

    def read_labels() -> dict[str, Json]:
        return {
            node["metadata"]["name"]: node["metadata"]["labels"] | {VERIFIED: ""}
            for node in list_nodes(bench)
        }

    labels, plugins, mark = read_labels(), plugin_uids(bench), bench.audit.mark()
    yield
    assert bench.audit.our_deletions(mark) == []
    assert plugin_uids(bench) == plugins
    assert read_labels() == labels


def expect_left(bench: Bench, before: set[str], kept: set[str]) -> None:
    """Wait until only the objects of the inventory `before`, and `kept`, exist."""

    def find_others() -> set[str]:
        return take_inventory(bench.cluster) ^ before ^ kept

    try:
        expect(bench, "the cluster is as before", lambda: not find_others())
    except AssertionError as error:
        raise AssertionError(f"left, or missing: {sorted(find_others())}") from error
