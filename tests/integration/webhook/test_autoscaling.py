"""Node pools that scale: pools without nodes, and nodes as their node pool makes them."""

from collections.abc import Iterator

import pytest

from devcluster.nodes import build_gpu_node
from tests.kit.bench import NODES, PLUGIN, POOL, Bench
from tests.kit.cluster.expect import (
    expect_bound,
    expect_gone,
    expect_pool_ready,
    expect_reason,
    expect_running,
    is_unschedulable,
)
from tests.kit.cluster.namespaces import default_namespace
from tests.kit.cluster.pod_admission import expect_sent
from tests.kit.cluster.sharing_pools import given_sharing_pool
from tests.kit.values.manifests import NODE_POOL_LABEL, build_pod, build_pool

ELASTIC = "np-elastic"
TEMPLATE = {NODE_POOL_LABEL: ELASTIC, "ack.node.gpu.schedule": "share", POOL: "elastic"}
"""Labels that the node pool itself carries."""
TAINT = {"key": "gpu-sharing", "value": "true", "effect": "NoSchedule"}
DAEMONSET = f"/apis/apps/v1/namespaces/kube-system/daemonsets/{PLUGIN}"
NAMED = {"gpushare.io/pool": "elastic"}


@pytest.fixture
def elastic(bench: Bench) -> Iterator[Bench]:
    """The pool `training` with node `n1`, and the pool `elastic` without nodes."""
    given_sharing_pool(bench, "Professional", "n1")
    bench.create_pool(build_pool("elastic", node_pool=ELASTIC, workloads={"tolerations": [TAINT]}))
    expect_sent(default_namespace(bench), build_pod("probe", annotations=NAMED), "elastic")
    yield bench
    # As no edition installs it, after these tests: the next one gets another.
    bench.call("DELETE", f"{DAEMONSET}?propagationPolicy=Foreground")
    expect_gone(bench, DAEMONSET)


def scale_up(bench: Bench, node: str) -> None:
    """A node comes as its node pool makes it."""
    manifest = build_gpu_node(node, labels=TEMPLATE)
    bench.call("POST", NODES, manifest | {"spec": {"taints": [TAINT]}})


def tolerate(bench: Bench) -> None:
    """Have the device plugin tolerate the node pool's taint."""
    template = {"spec": {"template": {"spec": {"tolerations": [TAINT]}}}}
    bench.call("PATCH", DAEMONSET, template)


def test_a_tainted_node_pool_takes_the_pods_that_are_sent_there_and_no_others(
    elastic: Bench,
) -> None:
    elastic.create_pod(build_pod("wanted", annotations=NAMED))
    elastic.create_pod(build_pod("stranger", selects={POOL: "elastic"}))
    mark = elastic.audit.mark()

    with elastic.watching() as recording:
        scale_up(elastic, "e1")
        expect_reason(elastic, "e1", "PluginRestarting", pool="elastic")
        tolerate(elastic)

        assert expect_bound(elastic, "wanted") == "e1"
        expect_running(elastic, "wanted")
        expect_pool_ready(elastic, "elastic", nodes=1)

    states = [node for node in recording.history if node["metadata"]["name"] == "e1"]
    assert states
    assert not [node for node in states if node["spec"].get("unschedulable")]
    assert elastic.audit.our_deletions(mark) == []
    # Nor did it ever offer whole cards.
    assert not [node for node in states if "nvidia.com/gpu" in node["status"]["allocatable"]]
    assert elastic.node("e1")["spec"]["taints"] == [TAINT]
    stranger = elastic.pod("stranger")
    assert is_unschedulable(stranger)
    assert not stranger["spec"].get("nodeName")
