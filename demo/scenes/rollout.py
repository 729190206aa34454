"""A change over a whole pool: planned, tried on a canary, halted by a failure, and resumed."""

from demo.checks import expect, expect_equal, expect_line, expect_restarted_once
from demo.sights import Node
from demo.story import Facts, Scene, step
from demo.view import View
from devcluster.names import CGPU, DISABLE_ISOLATION, FAULT, GPU_MEM
from devcluster.nodes import build_gpu_node

FILES = "demo/manifests/rollout"
CANARY, *OTHERS = NODES = [f"cn-shanghai.192.168.9.{number}" for number in range(21, 26)]
# It stands for the kinds of change, not for the nodes: the same in every cluster.
AGREED = "9f2b209da3b5"
# Where no drop of its resource was seen, a healthy node takes twelve; on a busy machine, more.
_MORE_TIME = '{"spec":{"rollout":{"readyTimeoutSeconds":300}}}'


@step(
    "A pool of five nodes that share their cards",
    f"kubectl apply -f {FILES}/pool.yaml",
    by_hand="the labels are there already; which nodes belong together is in somebody's head",
)
def pool(view: View) -> Facts:
    view.ready_pool("inference", nodes=5)
    first, *_ = view.offering("inference", GPU_MEM, units=15)
    yield f"each of the five: {first.shows(CGPU, DISABLE_ISOLATION)}; offers {GPU_MEM}: 15"
    restarts = view.restarts()
    expect(not restarts, "no restart of a plugin", restarts)
    yield "found in the pool's mode: no plugin was restarted"


@step(
    "Isolation is wanted: what would that do?",
    """kubectl patch gsp inference --type=merge -p '{"spec":{"schedule":"cgpu"}}'""",
    "kubectl wait gsp/inference --for=condition=RolloutComplete=False --timeout=3m",
    "kubectl gpushare plan pool inference",
    by_hand="nobody can tell before it is done",
)
def plan(view: View) -> Facts:
    rollout = view.rollout("inference", "WaitingForApproval")
    expect_equal(rollout.left, tuple(NODES), "the nodes in status.plan")
    expect_equal(rollout.plan_hash, AGREED, "the plan's hash")
    expect_line(view.output, f"plan {AGREED}: {rollout.plan_summary}")
    for wave, name in zip((1, 2, 2, 3, 3), NODES, strict=True):
        expect_line(view.output, f"{wave} {name} share -> cgpu cordon, 2 labels, restart plugin")
    yield "one node first, then two at a time; the pool's status.plan says the same"
    writes = view.node_writes()
    expect(not writes, "no write of the operator to any node", writes)
    yield "nothing was written to any node"


@step(
    "The plan is agreed to. What nobody knows: the first node's driver is broken",
    f"""kubectl annotate node {CANARY} {FAULT}='{{"plugin_never_ready": true}}'""",
    f"kubectl gpushare approve inference --hash {AGREED}",
    by_hand="a loop over all nodes: by the time that somebody looks, every plugin was restarted",
)
def halt(view: View) -> Facts:
    expect_line(view.output, "inference", AGREED)
    rollout = view.rollout("inference", "RolloutHalted", failed=1)
    expect(CANARY in rollout.message, f"{CANARY} to be blamed", rollout)
    yield f"the pool is halted: {view.event('inference', 'RolloutHalted')}"
    yield expect_restarted_once([CANARY], view.restarts())
    yield from _only_the_canary(view)


@step(
    "The driver is mended: the node finishes by itself, the pool stays halted",
    "kubectl gpushare explain pool inference",
    f"kubectl annotate node {CANARY} {FAULT}-",
    by_hand="find out which step the script had reached on that node, and do the rest",
)
def mended(view: View) -> Facts:
    expect_line(view.output, f"failed DeadlineExceeded {CANARY}", "gpushare-device-plugin-ds")
    expect_line(view.output, "Nodes 0 of 5 ready, 4 waiting, 1 failed")
    rollout = view.rollout("inference", "RolloutHalted", failed=0)
    expect_equal(rollout.left, tuple(OTHERS), "the nodes in status.plan")
    node = view.node_where(
        CANARY, "is in service", lambda node: node.schedulable and node.offers(GPU_MEM) == 15
    )
    restarts = view.restarts()
    expect(not restarts, "no restart of a plugin", restarts)
    yield f"{CANARY}: {node.shows(DISABLE_ISOLATION)}; in service again, without another restart"
    yield f"the pool still says {rollout.reason}: somebody should look first"
    yield from _only_the_canary(view)


@step(
    "Somebody has looked, resumes it, and gives each node more time",
    "kubectl gpushare retry inference",
    f"kubectl patch gsp inference --type=merge -p '{_MORE_TIME}'",
    "kubectl wait gsp/inference --for=condition=RolloutComplete --timeout=3m",
    by_hand="the rest of the loop, without the nodes that were done",
)
def resumed(view: View) -> Facts:
    expect_line(view.output, "pool/inference: gpushare.io/retry is")
    for node in view.ready_pool("inference", nodes=5):
        isolates = node.labels[DISABLE_ISOLATION] == "false" and node.schedulable
        expect(isolates, f"{node.name} to isolate and to be in service", node)
    yield "all five nodes isolate, are verified, and are in service"
    yield expect_restarted_once(OTHERS, view.restarts())
    together = view.most_at_once()
    expect(together <= 2, "at most two nodes at a time, as rollout.maxUnavailable says", together)
    yield "never more than two nodes at a time"


def _only_the_canary(view: View) -> Facts:
    """Check that the other nodes did not change, and were not written to in this step."""
    touched = {write.name for write in view.node_writes()}
    expect(touched == {CANARY}, f"writes to {CANARY} alone", touched)
    for name in OTHERS:
        node = _find(view, name)
        as_before = node.schedulable and node.offers(GPU_MEM) == 15
        as_before = as_before and node.labels[DISABLE_ISOLATION] == "true"
        expect(as_before, f"{name} in service, as it was before", node)
    yield "the other four: not one write, in service, as they were"


def _find(view: View, name: str) -> Node:
    (node,) = (node for node in view.nodes("inference") if node.name == name)
    return node


SCENE = Scene(
    title="A change that goes wrong, and stops by itself",
    source="What no guide speaks of: guide 000's flip of isolation, over a pool of any size",
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
    steps=(pool, plan, halt, mended, resumed),
)
