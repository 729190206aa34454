"""The warning of guides 000 and 002: pods without a selection of nodes."""

from collections import Counter

from demo.checks import expect, expect_line
from demo.story import Facts, Scene, step
from demo.view import View
from devcluster.names import GPU_MEM, SCHEDULE
from devcluster.nodes import build_gpu_node

FILES = "demo/manifests/unselected"
NODE_POOLS = ("np-cgpu", "np-cgpu", "np-cgpu-no-isolation", "np-cgpu-no-isolation")


@step(
    "A pool that isolates beside one that does not",
    f"kubectl apply -f {FILES}/pools.yaml",
    by_hand="label each node pool",
)
def pools(view: View) -> Facts:
    for pool in ("cgpu", "cgpu-no-isolation"):
        for node in view.ready_pool(pool, nodes=2):
            yield f"{node.name}: {node.shows(SCHEDULE)}; room for {node.offers(GPU_MEM)} GiB"


@step(
    "Six pods that need isolation, and select nothing",
    f"kubectl gpushare explain -f {FILES}/job-b.yaml",
    f"kubectl apply -f {FILES}/job-b.yaml",
    by_hand="a nodeSelector in each: without one they land on any of the four nodes, and those on "
    "the last two run without isolation",
)
def needs_isolation(view: View) -> Facts:
    expect_line(view.output, "Decision Routed: Assigned to pool cgpu (cgpu)")
    expect_line(view.output, "cgpu-no-isolation share 100 30/30 GiB 15 lost NotIsolated")
    pods = view.started("job-b", pods=6)
    expect(all(pod.got.isolated for pod in pods), "every pod isolated", pods)
    yield _expect_all_in(view, "job-b", "cgpu")
    yield f"{len(pods)} of {len(pods)} are isolated"
    yield f"the webhook was asked about {view.admissions().total()} pods"


@step(
    "Two pods that say that they need none",
    f"kubectl apply -f {FILES}/job-a.yaml",
    "kubectl rollout status deployment/job-a --timeout=3m",
    "kubectl gpushare inspect --pools",
    by_hand="a nodeSelector for the other pool",
)
def needs_none(view: View) -> Facts:
    pods = view.started("job-a", pods=2)
    expect(not any(pod.got.isolated for pod in pods), "no pod isolated", pods)
    yield _expect_all_in(view, "job-a", "cgpu-no-isolation")
    expect_line(view.output, "cgpu-no-isolation share, 2/2 nodes ready, 2 GPUs, 6/30 GiB allocated")


def _expect_all_in(view: View, app: str, pool: str) -> str:
    nodes = {node.name for node in view.nodes(pool)}
    counts = Counter(pod.node for pod in view.pods(app))
    expect(counts.keys() <= nodes, f"all pods of {app} on {', '.join(sorted(nodes))}", counts)
    listed = ", ".join(f"{count} on {node}" for node, count in sorted(counts.items()))
    return f"all are in pool {pool}: {listed}"


SCENE = Scene(
    title="The pod that selects nothing",
    source="The warning in guides 000 and 002: such a pod may be scheduled to any pool",
    edition="Professional",
    nodes=tuple(
        build_gpu_node(
            f"cn-hangzhou.192.168.5.{number}",
            labels={"alibabacloud.com/nodepool-id": node_pool},
        )
        for number, node_pool in enumerate(NODE_POOLS, start=31)
    ),
    steps=(pools, needs_isolation, needs_none),
)
