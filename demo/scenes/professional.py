"""Guide 001: the modes of the Professional edition, and what a container can do to itself."""

from demo.checks import expect, expect_memory
from demo.sights import Pod
from demo.story import Facts, Scene, step
from demo.view import View
from devcluster.names import GPU_MEM, SCHEDULE, TOPOLOGY_CARD, WHOLE_CARD
from devcluster.nodes import build_gpu_node

FILES = "demo/manifests/professional"
ROLLOUT = "kubectl rollout status -n test deployment/gpu-share-sample --timeout=45s"
ISOLATED_MIB, WHOLE_MIB = 3226, 16130
CARDS = 2
OFFERS = {
    "default": (WHOLE_CARD, CARDS),
    "share": (GPU_MEM, CARDS * 15),
    "cgpu": (GPU_MEM, CARDS * 15),
    "topology": (TOPOLOGY_CARD, CARDS),
}


def _sample(view: View) -> Pod:
    (pod,) = view.started("gpu-share-sample", namespace="test")
    return pod


@step(
    "Each row of the guide's table is a pool",
    f"kubectl apply -f {FILES}/pools.yaml",
    by_hand="set the label ack.node.gpu.schedule on each node in the console",
)
def modes(view: View) -> Facts:
    for mode, (resource, units) in OFFERS.items():
        view.ready_pool(mode, nodes=1)
        (node,) = view.offering(mode, resource, units=units)
        yield f"{node.name}: {node.shows(SCHEDULE)}; offers {resource}: {units}"


@step(
    "3 GiB with isolation: CGPU_DISABLE is 'false'",
    f"kubectl apply -f {FILES}/sample.yaml",
    by_hand="add a nodeSelector for the nodes that isolate",
)
def isolated(view: View) -> Facts:
    pod = _sample(view)
    expect(pod.pool == "cgpu", f"{pod.name} routed to pool cgpu", pod)
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
    expect(pod.pool == "share", f"{pod.name} routed to pool share", pod)
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
    (node,) = view.nodes("cgpu")
    expect(pod.node == node.name, f"{pod.name} on {node.name}", pod)
    yield "left as its owner wrote it"
    yield expect_memory(pod, WHOLE_MIB, isolated=False)


@step(
    "Hazard: the same without a gpu-mem limit",
    f"kubectl apply -f {FILES}/sample-without-limit.yaml",
    ROLLOUT,
    by_hand="nothing tells: the cards count as free while this container uses them",
)
def unaccounted(view: View) -> Facts:
    (node,) = view.nodes("cgpu")
    pod = _sample(view)
    cards = pod.got.cards
    expect(len(cards) == CARDS, f"{pod.name} to see all {CARDS} cards", cards)
    yield f"{expect_memory(pod, WHOLE_MIB, isolated=False)}, on each of {len(cards)} cards"
    ledger = view.allocation(node.name, "0/30 (0%)")
    yield f"the scheduler's ledger has {ledger} GiB allocated on {node.name}"
    told = view.admissions()
    expect(told == {"UnaccountedGPU": 1}, "the webhook asked about one such pod", told)
    yield "left as its owner wrote it; but now kubectl tells, when the workload is applied"


SCENE = Scene(
    title="Professional edition: modes, and CGPU_DISABLE",
    source="Guide 001, Kubernetes with Alibaba Cloud GPUs (Professional clusters)",
    edition="Professional",
    nodes=tuple(
        build_gpu_node(
            f"cn-beijing.192.168.8.{number}",
            cards=CARDS,
            labels={"alibabacloud.com/nodepool-id": f"np-{mode}", SCHEDULE: "default"},
        )
        for number, mode in enumerate(OFFERS, start=11)
    ),
    steps=(modes, isolated, not_isolated, not_isolated_among_isolated, unaccounted),
)
