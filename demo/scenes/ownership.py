"""Ownership of labels: a dry run, two pools, another field manager, and an uninstallation."""

from demo.checks import expect, expect_line
from demo.sights import POOL_LABEL, Node
from demo.story import Facts, Scene, step
from demo.view import View
from devcluster.names import PLACEMENT, SCHEDULE
from devcluster.nodes import build_gpu_node

FILES = "demo/manifests/ownership"
MANAGER = "gpushare-operator"
FIRST, SECOND = "cn-hangzhou.192.168.6.41", "cn-hangzhou.192.168.6.42"
# Not the mode: plugins come and go by that label, and one that is replaced before the label is back
# may have read the script's value, so the operator restarts it.
_OVERWRITE = f"kubectl label node {FIRST} {PLACEMENT}=spread --overwrite"
_PUT_BACK = (
    f"kubectl wait node/{FIRST} --timeout=3m "
    "--for=jsonpath='{.metadata.labels.ack\\.node\\.gpu\\.placement}'=binpack"
)


@step(
    "First only look: what would the pool do?",
    f"kubectl gpushare plan -f {FILES}/observe.yaml",
    f"kubectl apply -f {FILES}/observe.yaml",
    by_hand="nobody can tell before it is done",
)
def observe(view: View) -> Facts:
    pool = view.blocked_pool("training", "WouldChange")
    expect_line(view.output, "training new, share on 2 nodes")
    for name in (FIRST, SECOND):
        expect_line(view.output, f"{name} - 2 labels", pool.samples["WouldChange"])
    yield "the pool, once it is there, says the same in its status"
    writes = view.node_writes()
    expect(not writes, "no write of the operator to any node", writes)
    yield "nothing was written to any node"


@step(
    "Then do exactly that",
    """kubectl patch gsp training --type=merge -p '{"spec":{"reconcile":"Enforce"}}'""",
    by_hand="label every node of the node pool",
)
def enforce(view: View) -> Facts:
    for node in view.ready_pool("training", nodes=2):
        yield f"{node.name}: {node.shows(SCHEDULE, PLACEMENT, POOL_LABEL)}"


@step(
    "Another pool claims one of its nodes",
    f"kubectl apply -f {FILES}/rival.yaml",
    by_hand="whoever labels last wins, and nobody is told",
)
def overlap(view: View) -> Facts:
    pool = view.blocked_pool("notebooks", "OwnedByOtherPool")
    yield f"{pool.reason}: {pool.message}"


@step(
    "Its priority is raised: the node changes hands, without a restart",
    """kubectl patch gsp notebooks --type=merge -p '{"spec":{"priority":200}}'""",
    by_hand="relabel the node, and tell the others",
)
def priority(view: View) -> Facts:
    (node,) = view.ready_pool("notebooks", nodes=1)
    yield f"{node.name}: {node.shows(PLACEMENT, POOL_LABEL)}"
    restarts = view.restarts()
    expect(not restarts, "no restart of a plugin", restarts)


@step(
    "Somebody's script keeps writing the label",
    *(_OVERWRITE, _PUT_BACK, _OVERWRITE, _PUT_BACK, _OVERWRITE),
    by_hand="two tools fight over the label for ever, and the node is what the last one wrote",
)
def conflict(view: View) -> Facts:
    pool = view.blocked_pool("training", "LabelConflict")
    yield "put back twice; at the third time the operator gives way, and says to whom:"
    yield pool.message
    restarts = view.restarts()
    expect(not restarts, "no restart of a plugin", restarts)


@step(
    "The script is gone, and a person asks to try again",
    f"kubectl gpushare explain node {FIRST} | head -n 5",
    f"kubectl gpushare retry {FIRST}",
    by_hand="find the node, and put the label back",
)
def retry(view: View) -> Facts:
    expect_line(view.output, "kubectl-label keeps", PLACEMENT)
    expect_line(view.output, f"node/{FIRST}: gpushare.io/retry is", "was left to kubectl-label")
    node = view.node_where(
        FIRST,
        f"has {PLACEMENT}=binpack again",
        lambda node: node.labels.get(PLACEMENT) == "binpack",
    )
    yield f"{node.name}: {node.shows(PLACEMENT)}"


@step(
    "Both pools are deleted",
    "kubectl delete gsp training notebooks --timeout=3m",
    by_hand="nothing; but who knows whose the labels are?",
)
def clean_delete(view: View) -> Facts:
    nodes: list[Node] = [*view.nodes("training"), *view.nodes("notebooks")]
    expect(len(nodes) == 2, "both nodes with their labels", nodes)
    for node in nodes:
        ours = node.managers & {MANAGER}
        expect(not ours, f"no claim of {MANAGER} on {node.name}", node.managers)
        annotations = node.our_annotations
        expect(not annotations, f"no annotation of the operator on {node.name}", annotations)
        yield f"{node.name} keeps {node.shows(SCHEDULE, POOL_LABEL)}; nothing on it is ours"
    restarts = view.restarts()
    expect(not restarts, "no restart of a plugin", restarts)


SCENE = Scene(
    title="Whose label is it?",
    source="What no guide speaks of: other tools, other pools, and the end of a pool",
    edition="Professional",
    nodes=tuple(
        build_gpu_node(
            name,
            labels={"alibabacloud.com/nodepool-id": "np-gpu", SCHEDULE: "share"},
        )
        for name in (FIRST, SECOND)
    ),
    steps=(observe, enforce, overlap, priority, conflict, retry, clean_delete),
)
