"""Guide 003: an application moves to a shared card, and another one exceeds its share."""

from demo.checks import expect, expect_line, expect_memory
from demo.story import Facts, Scene, step
from demo.view import View
from devcluster.names import CGPU, GPU_MEM, WHOLE_CARD
from devcluster.nodes import build_gpu_node

FILES = "demo/manifests/shared-card"
NODE = "cn-hangzhou.192.168.2.167"
ISOLATED_MIB, WHOLE_MIB = 4301, 16130
_MIGRATE = f"kubectl gpushare migrate workloads -f {FILES}/app-3g-v1-whole.yaml --share 4"


@step(
    "The application has a whole card to itself",
    f"kubectl apply -f {FILES}/pool.yaml",
    f"kubectl apply -f {FILES}/app-3g-v1-whole.yaml",
    by_hand="the same",
)
def whole_card(view: View) -> Facts:
    view.ready_pool("gpu", nodes=1)
    (node,) = view.offering("gpu", WHOLE_CARD, units=1)
    yield f"{node.name}: {node.shows(CGPU)}; offers {WHOLE_CARD}: 1"
    (pod,) = view.started("app-3g-v1")
    percent = round(100 * view.usage(NODE, gib=3.1) * 1024 / WHOLE_MIB)
    yield f"{expect_memory(pod, WHOLE_MIB, isolated=False)}, and uses {percent}% of it"


@step(
    "The node shall share its card, with isolation, while the application uses it",
    """kubectl patch gsp gpu --type=merge -p '{"spec":{"schedule":"cgpu"}}'""",
    by_hand="the label cgpu=true is written, and the card is taken from under the application",
)
def waits_for_workloads(view: View) -> Facts:
    pool = view.blocked_pool("gpu", "WorkloadsPresent")
    yield f"{pool.reason}: {pool.message}"
    expect(not view.node_writes(), "no write of the operator to any node", view.node_writes())
    yield f"nothing was written: {NODE} offers whole cards as before"


@step(
    "The application asks for memory instead of a card: two of it on one card",
    _MIGRATE,
    f"{_MIGRATE} -o yaml | kubectl apply -f -",
    "kubectl scale statefulset app-3g-v1 --replicas=2",
    "kubectl rollout status statefulset/app-3g-v1 --timeout=3m",
    f"kubectl gpushare inspect {NODE}",
    by_hand="rewrite the manifest; delete the application, label the node, wait for its plugin, "
    "apply again",
)
def two_on_one_card(view: View) -> Facts:
    expect_line(view.output, f"- {WHOLE_CARD}: 1")
    expect_line(view.output, f"+ {GPU_MEM}: 4")
    expect_line(view.output, "will be assigned to pool gpu (cgpu)")
    yield "its old pod left, which was what the node's change waited for"
    (node,) = view.ready_pool("gpu", nodes=1)
    yield f"{node.name}: {node.shows(CGPU)}; offers {GPU_MEM}: {node.offers(GPU_MEM)}"
    pods = view.started("app-3g-v1", pods=2)
    for pod in pods:
        expect(pod.got.cards == (0,), f"{pod.name} on card 0", pod.got.cards)
        yield expect_memory(pod, ISOLATED_MIB, isolated=True)
    expect_line(view.output, NODE, "8/15 8/15")
    yield f"both are on card 0; allocated: {view.allocation(NODE, '8/15 (53%)')}, as in the guide"


@step(
    "An application that asks for 4 GiB and uses 6",
    f"kubectl apply -f {FILES}/app-6g-v1.yaml",
    by_hand="without isolation its neighbours would run out of memory",
)
def crashes_alone(view: View) -> Facts:
    greedy = view.waiting_pod("app-6g-v1", "CrashLoopBackOff")
    expect(greedy.node == NODE, f"{greedy.name} beside the others", greedy.node)
    yield f"{greedy.name}: {greedy.got.waiting}, {greedy.got.last_error}"
    for pod in view.started("app-3g-v1", pods=2):
        expect(pod.got.restarts == 0, f"no restart of {pod.name}", pod.got.restarts)
        yield f"{pod.name} goes on beside it: Ready, {pod.got.restarts} restarts"


SCENE = Scene(
    title="From a card of its own to a shared one",
    source="Guide 003, monitor and isolate GPU resources (its second half, with cgpu=true)",
    edition="Basic",
    nodes=(build_gpu_node(NODE, labels={"alibabacloud.com/nodepool-id": "np-gpu"}),),
    steps=(whole_card, waits_for_workloads, two_on_one_card, crashes_alone),
)
