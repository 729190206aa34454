"""Guide 001: the modes of the Professional edition, and a container that disables isolation."""

from demo.checks import expect, expect_equal, expect_line, expect_memory
from demo.sights import Node, Pod
from demo.story import Facts, Scene, step
from demo.view import View
from devcluster.names import GPU_MEM, SCHEDULE, TOPOLOGY_CARD, WHOLE_CARD
from devcluster.nodes import build_gpu_node

FILES = "demo/manifests/professional"
ROLLOUT = "kubectl rollout status -n test deployment/gpu-share-sample --timeout=3m"
ISOLATED_MIB, WHOLE_MIB = 3226, 16130
CARDS = 2
OFFERS = {  # by the mode that each node was labelled with
    "default": (WHOLE_CARD, CARDS),
    "share": (GPU_MEM, CARDS * 15),
    "cgpu": (GPU_MEM, CARDS * 15),
    "topology": (TOPOLOGY_CARD, CARDS),
}
NODES = {mode: f"cn-beijing.192.168.8.{number}" for number, mode in enumerate(OFFERS, start=11)}
NODE_POOLS = {mode: f"np{number}" for number, mode in enumerate(OFFERS, start=11)}
POOLS = {mode: f"{node_pool}-{mode}" for mode, node_pool in NODE_POOLS.items()}
"""Names of the pools by adopt."""


def _offering(view: View, name: str, resource: str, units: int) -> Node:
    return view.node_where(
        name, f"offers {resource}: {units}", lambda node: node.offers(resource) == units
    )


def _sample(view: View) -> Pod:
    (pod,) = view.started("gpu-share-sample", namespace="test")
    return pod


@step(
    "Each row of the guide's table is a node that somebody labelled",
    f"kubectl get nodes -L {SCHEDULE} -l {SCHEDULE}",
    by_hand="this was by hand: set the label on each node in the console",
)
def labelled(view: View) -> Facts:
    for mode, name in NODES.items():
        resource, units = OFFERS[mode]
        node = _offering(view, name, resource, units)
        yield f"{node.name}: {node.shows(SCHEDULE)}; offers {resource}: {units}"


@step(
    "The operator takes over what is there",
    "kubectl gpushare adopt",
    "kubectl gpushare adopt -o yaml | kubectl apply -f -",
    by_hand="write a pool for each, and hope that nothing changes",
)
def adopted(view: View) -> Facts:
    expect_line(view.output, "The plan is empty")
    for mode, name in NODES.items():
        (node,) = view.ready_pool(POOLS[mode], nodes=1)
        expect_line(view.output, f"{POOLS[mode]} Professional {mode} - 1")
        expect(node.name == name, f"{name} in pool {POOLS[mode]}", node.name)
        expect(node.labels[SCHEDULE] == mode, f"{SCHEDULE}={mode} on {name}", node)
        yield f"pool {POOLS[mode]} has {name}, which has {node.shows(SCHEDULE)} as before"
    restarts = view.restarts()
    expect(not restarts, "no restart of a plugin", restarts)
    yield "no plugin was restarted"


@step(
    "3 GiB with isolation: CGPU_DISABLE is 'false'",
    f"kubectl apply -f {FILES}/sample.yaml",
    by_hand="add a nodeSelector for the nodes that isolate",
)
def isolated(view: View) -> Facts:
    pod = _sample(view)
    expect(pod.pool == POOLS["cgpu"], f"{pod.name} routed to pool {POOLS['cgpu']}", pod)
    yield f"routed to pool {pod.pool}"
    yield expect_memory(pod, ISOLATED_MIB, isolated=True)


@step(
    "3 GiB without isolation: CGPU_DISABLE is 'true'",
    f"kubectl apply -f {FILES}/sample-disabled.yaml",
    ROLLOUT,
    by_hand="know that this pod is better off where nobody counts on isolation, and select it",
)
def not_isolated(view: View) -> Facts:
    pod = _sample(view)
    expect(pod.pool == POOLS["share"], f"{pod.name} routed to pool {POOLS['share']}", pod)
    yield f"routed to pool {pod.pool}"
    yield expect_memory(pod, WHOLE_MIB, isolated=False)


@step(
    "The same, where its owner insists on a node that isolates",
    f"kubectl apply -f {FILES}/sample-disabled-on-cgpu.yaml",
    ROLLOUT,
    by_hand="the same: the container's word goes before the node's",
)
def not_isolated_among_isolated(view: View) -> Facts:
    pod = _sample(view)
    expect(pod.pool == "", f"the nodeSelector of {pod.name} left as it was", pod)
    expect(pod.node == NODES["cgpu"], f"{pod.name} on {NODES['cgpu']}", pod)
    yield "left as its owner wrote it"
    yield expect_memory(pod, WHOLE_MIB, isolated=False)


@step(
    "Hazard: the same without a gpu-mem limit",
    f"kubectl apply -f {FILES}/sample-without-limit.yaml",
    ROLLOUT,
    by_hand="nothing tells: the cards count as free while this container uses them",
)
def unaccounted(view: View) -> Facts:
    pod = _sample(view)
    cards = pod.got.cards
    expect(len(cards) == CARDS, f"{pod.name} to see all {CARDS} cards", cards)
    yield f"{expect_memory(pod, WHOLE_MIB, isolated=False)}, on each of {len(cards)} cards"
    ledger = view.allocation(NODES["cgpu"], "0/30 (0%)")
    yield f"the scheduler's ledger has {ledger} GiB allocated on {NODES['cgpu']}"
    counts = dict(view.admissions())
    expect_equal(counts, {"UnaccountedGPU": 1}, "the pods that the webhook counted, by reason,")
    yield "left as its owner wrote it; but now kubectl tells, when the workload is applied"


SCENE = Scene(
    title="Professional edition: modes, and CGPU_DISABLE",
    source="Guide 001, Kubernetes with Alibaba Cloud GPUs (Professional clusters)",
    edition="Professional",
    nodes=tuple(
        build_gpu_node(
            name,
            cards=CARDS,
            labels={"alibabacloud.com/nodepool-id": NODE_POOLS[mode], SCHEDULE: mode},
        )
        for mode, name in NODES.items()
    ),
    steps=(labelled, adopted, isolated, not_isolated, not_isolated_among_isolated, unaccounted),
)
