"""A cluster of one's own for a release of the chart: Helm refuses what another made."""

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
    "apiservices.apiregistration.k8s.io /v1alpha1.gpushare.io",
    "gpusharepools.gpushare.io /training",
}
"""What outlives a release that is uninstalled."""


@contextmanager
def start_bare_cluster(name: str, folder: Path) -> Iterator[Bench]:
    """A cluster with two GPU nodes, and nothing of ours but the namespace. At its end nobody of
    ours has been refused anything."""
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
    """At the end of the block no plugin has been restarted, by anybody, and no label is another.

    But for the one that says whether isolation is verified: it comes and goes with an operator that
    verifies it.
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
    """Until there is what was there before (its inventory), and `kept`."""

    def find_others() -> set[str]:
        return take_inventory(bench.cluster) ^ before ^ kept

    try:
        expect(bench, "the cluster is as before", lambda: not find_others())
    except AssertionError as error:
        raise AssertionError(f"left, or missing: {sorted(find_others())}") from error
