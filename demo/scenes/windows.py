"""A change that waits for the team's maintenance window, and one that cannot wait."""

from demo.checks import expect, expect_equal, expect_line, expect_restarted_once
from demo.story import Facts, Scene, step
from demo.view import View
from devcluster.names import CGPU, DISABLE_ISOLATION, GPU_MEM
from devcluster.nodes import build_gpu_node

FILES = "demo/manifests/windows"
NODES = [f"cn-shanghai.192.168.9.{number}" for number in range(31, 34)]
# It stands for the kinds of change, not for the nodes: the same in every cluster.
PLAN = "9f2b209da3b5"


@step(
    "A pool of three nodes whose changes wait for a maintenance window",
    f"kubectl apply -f {FILES}/pool.yaml",
    by_hand="an entry in somebody's calendar",
)
def pool(view: View) -> Facts:
    view.ready_pool("inference", nodes=3)
    first, *_ = view.offering("inference", GPU_MEM, units=15)
    yield f"each of the three: {first.shows(CGPU, DISABLE_ISOLATION)}; offers {GPU_MEM}: 15"


@step(
    "Somebody edits the pool at noon: nothing is interrupted, and everybody sees when it will be",
    """kubectl patch gsp inference --type=merge -p '{"spec":{"schedule":"cgpu"}}'""",
    "kubectl wait gsp/inference --for=condition=RolloutComplete=False --timeout=3m",
    "kubectl get gsp inference -o wide",
    "kubectl gpushare plan pool inference",
    by_hand="nobody can tell, and the plugins restart at once",
)
def closed(view: View) -> Facts:
    rollout = view.rollout("inference", "WaitingForWindow")
    expect_equal(rollout.left, tuple(NODES), "the nodes in status.plan")
    expect_equal(rollout.plan_hash, PLAN, "the plan's hash")
    expect_line(view.output, "02:00 Asia/Shanghai")
    expect_line(view.output, f"gpushare start-now inference --plan {PLAN}")
    yield f"the pool says: {rollout.message}"
    writes = view.node_writes()
    expect(not writes, "no write of the operator to any node", writes)
    yield "nothing was written to any node"


@step(
    "It cannot wait: this plan, and no other, is started now",
    f"kubectl gpushare start-now inference --plan {PLAN}",
    "kubectl wait gsp/inference --for=condition=RolloutComplete --timeout=3m",
    by_hand="the loop over all nodes, at noon",
)
def started(view: View) -> Facts:
    for node in view.ready_pool("inference", nodes=3):
        isolates = node.labels[DISABLE_ISOLATION] == "false" and node.schedulable
        expect(isolates, f"{node.name} to isolate and to be in service", node)
    yield expect_restarted_once(NODES, view.restarts())
    together = view.most_at_once()
    expect(together <= 1, "one node at a time, as always", together)
    yield f"who did it: {view.event('inference', 'StartedNow')}"


SCENE = Scene(
    title="A change at noon waits for the night",
    source="What no guide speaks of: when a plugin may restart",
    edition="Basic",
    nodes=tuple(
        build_gpu_node(
            name,
            labels={
                "alibabacloud.com/nodepool-id": "np-inference",
                CGPU: "true",
                DISABLE_ISOLATION: "true",
            },
        )
        for name in NODES
    ),
    steps=(pool, closed, started),
)
