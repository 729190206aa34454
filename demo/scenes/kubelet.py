"""The kubelet restarts unnoticed: its device plugin reads the label that the node has then."""

from demo.checks import expect, expect_memory, expect_restarted_once
from demo.story import Facts, Scene, step
from demo.view import View
from devcluster.names import DISABLE_ISOLATION, RESTART_KUBELET
from devcluster.nodes import build_gpu_node

FILES = "demo/manifests/kubelet"
NODE = "cn-shanghai.192.168.7.171"
ISOLATED_MIB, WHOLE_MIB = 3226, 16130
_LABEL = f"kubectl label node {NODE} --overwrite {DISABLE_ISOLATION}="


def _reconcile(how: str) -> str:
    return f"""kubectl patch gsp training --type=merge -p '{{"spec":{{"reconcile":"{how}"}}}}'"""


@step(
    "A pool isolates, and a pod runs on it",
    f"kubectl apply -f {FILES}/pool.yaml",
    "kubectl wait gsp/training --for=condition=Ready --timeout=3m",
    f"kubectl apply -f {FILES}/train.yaml",
    by_hand="label the node, and look whether its device plugin came up",
)
def isolating(view: View) -> Facts:
    (pod,) = view.started("train")
    yield expect_memory(pod, ISOLATED_MIB, isolated=True)


@step(
    "The pool is paused; somebody flips the label, and the kubelet restarts (here the simulator's)",
    _reconcile("Paused"),
    # The operator has heard of it: before that it would put the label back.
    "kubectl wait gsp/training --for=jsonpath='{.status.observedGeneration}'=2 --timeout=3m",
    f"{_LABEL}true",
    f"kubectl annotate node {NODE} {RESTART_KUBELET}=1",
    by_hand="nobody notices: the plugin's pod is the same, with the same restart count",
)
def flipped(view: View) -> Facts:
    pool = view.blocked_pool("training", "ModeUnknown")
    yield f"ModeUnknown: {pool.samples['ModeUnknown']}"


@step(
    "They put the label back, and scale up",
    f"{_LABEL}false",
    "kubectl scale statefulset train --replicas=2",
    by_hand="every label is as it should be, and the new pod takes the whole card",
)
def restore(view: View) -> Facts:
    pod = view.started("train", pods=2)[-1]
    yield expect_memory(pod, WHOLE_MIB, isolated=False)
    isolation = view.unknown_isolation("training", containers=2)
    counted = f"{isolation.unknown} of {isolation.containers} containers are counted unknown"
    yield f"{counted}: {isolation.message}"


@step(
    "The pool acts again",
    _reconcile("Enforce"),
    "kubectl wait gsp/training --for=condition=Ready --timeout=3m",
    by_hand="delete the plugin's pod, if anybody thinks of it",
)
def acts(view: View) -> Facts:
    (node,) = view.ready_pool("training", nodes=1)
    yield expect_restarted_once([NODE], view.restarts())
    expect(node.schedulable, f"{NODE} in service", node)
    yield f"{node.name}: {node.shows(DISABLE_ISOLATION)}, and read by the plugin"


@step(
    "The pods of that time are replaced",
    "kubectl delete pods -l app=train --timeout=3m",
    by_hand="find out which pods those are",
)
def known_again(view: View) -> Facts:
    isolation = view.isolation("training", containers=2, isolated=2)
    for pod in view.started("train", pods=2):
        yield expect_memory(pod, ISOLATED_MIB, isolated=True)
    yield f"IsolationConsistent: {isolation.message}"


SCENE = Scene(
    title="The kubelet restarts behind our back",
    source="What no guide speaks of: a device plugin reads its label whenever its kubelet restarts",
    edition="Basic",
    nodes=(build_gpu_node(NODE, labels={"alibabacloud.com/nodepool-id": "np-gpu"}),),
    steps=(isolating, flipped, restore, acts, known_again),
)
